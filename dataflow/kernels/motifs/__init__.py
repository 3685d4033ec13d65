"""Motifs: sorted indexes, worst-case optimal extension, and BiGJoin."""
