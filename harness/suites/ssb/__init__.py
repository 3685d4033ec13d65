"""The SSB suite: the queries of the Star Schema Benchmark, maintained from their texts of SQL."""
