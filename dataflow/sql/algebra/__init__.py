"""Plans of SQL: operations, how they are read from DuckDB, and how they are rewritten."""
