"""Queries over graphs: motifs by name and in words."""
