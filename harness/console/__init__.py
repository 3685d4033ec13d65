"""Console output: formats of numbers, tables, progress and the lines of a run."""
