"""Operators that keep state for each group, and emit its changes when a time ends."""
