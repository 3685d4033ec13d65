"""A database to connect to: tables in DuckDB, and views that the engine maintains."""
