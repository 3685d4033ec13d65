"""Motifs: sorted indexes, worst-case optimal extension of rows by them, and BiGJoin."""
