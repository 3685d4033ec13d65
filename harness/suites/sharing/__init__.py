"""The sharing suite: all queries in one dataflow beside each query alone."""
