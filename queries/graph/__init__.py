"""Queries over graphs, whose edges have columns src and dst, nodes and roots a column node; motifs by name."""
