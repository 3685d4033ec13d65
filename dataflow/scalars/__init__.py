"""Expressions over the columns of rows, and their values, with NULL."""
