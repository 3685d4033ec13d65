"""Engines: the embedded one, Spark, DuckDB, Spark SQL and external programs."""
