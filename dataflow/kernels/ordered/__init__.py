"""Ordered data: B+-trees, sorted lists and their intersection, and sorting."""
