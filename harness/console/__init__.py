"""Console output: progress and the lines of a run."""
