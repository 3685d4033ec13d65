"""Expressions of SQL as terms, with the logic of three values."""
