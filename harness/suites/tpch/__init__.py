"""The suite of TPC-H: the post's tables and ours."""
