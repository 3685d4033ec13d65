"""Commands that measure: the benchmark, the regression gate, soak and chaos runs."""
