"""Terms of plans: bound expressions, their ranges, selectivity and SQL."""
