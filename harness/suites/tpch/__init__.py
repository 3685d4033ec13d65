"""The suite of the queries of a benchmark, by default TPC-H."""
