"""Checking: answers against DuckDB, change streams and their digests."""
