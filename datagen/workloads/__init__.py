"""The workloads: a module for each or for a few alike, and the names by which commands select them."""
