"""Motifs over static relations, counted or listed by BiGJoin."""
