"""Tables of the suites whose records have rows."""
