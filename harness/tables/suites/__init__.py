"""Tables of the suites beside TPC-H."""
