"""Operators of motifs: indexes, and the extension of rows by their values."""
