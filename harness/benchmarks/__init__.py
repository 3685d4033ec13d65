"""Benchmarks: relations, where their rows come from, and queries, as folders."""
