"""Strikes at running commands and queries at random moments: what trials and the suite of recovery have in common."""
