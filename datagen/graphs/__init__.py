"""Graphs: generators, edge files, and their storage."""
