"""deltamark: a benchmark harness for incremental view maintenance, and the engine that it drives."""

__version__ = "0.1.0"
