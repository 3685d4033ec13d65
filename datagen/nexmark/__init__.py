"""Nexmark: the events of an auction house, and their storage."""
