"""The sections of the report."""
