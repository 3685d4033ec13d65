"""Exports: the measurements of a machine in formats that other tools read, one file a format."""
