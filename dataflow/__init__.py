"""The incremental engine: a plan -> a maintained collection. Knows nothing of TPC-H."""
