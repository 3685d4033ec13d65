"""Commands that show results: tables, the report, and the published page of results."""
