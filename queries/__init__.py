"""Queries as pure functions that build plans: TPC-H, motifs and loops over graphs."""
