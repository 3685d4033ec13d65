"""Commands that make and check data."""
