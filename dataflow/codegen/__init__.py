"""Code generation: a plan becomes a program of operator blocks."""
