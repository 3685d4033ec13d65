"""Commands about one or several queries: answers, changes, plans, checks."""
