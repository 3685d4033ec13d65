"""Queries over graphs: edges have columns src and dst, nodes and roots a column node."""
