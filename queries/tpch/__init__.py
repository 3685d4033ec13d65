"""The 22 queries of TPC-H, one a file."""
