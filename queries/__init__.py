"""TPC-H in terms of dataflow: pure functions that build plans."""
