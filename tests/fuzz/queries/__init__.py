"""Random SQL: maintained answers are compared with those of DuckDB."""
