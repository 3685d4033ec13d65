"""Arrangements, joins over them, and the consolidation of streams."""
