"""Iteration: the loop, its joins, its reduction, and the trace of earlier iterations."""
