"""Commands that show results: tables, the report, and the README's tables."""
