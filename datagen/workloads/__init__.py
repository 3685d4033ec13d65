"""The workloads: a file for each, and the names by which commands select them."""
