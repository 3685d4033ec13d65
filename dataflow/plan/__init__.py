"""Plan nodes, bound expressions, and the passes over plans."""
