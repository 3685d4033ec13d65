"""The incremental engine: it compiles a plan and maintains its answer. It knows nothing of TPC-H."""
