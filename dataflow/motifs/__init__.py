"""Motifs over static relations, found by BiGJoin; and statistics of maintained motifs."""
