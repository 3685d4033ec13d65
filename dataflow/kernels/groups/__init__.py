"""Operators that keep state per group: sums, thresholds, extremes, top-k, moving thresholds."""
