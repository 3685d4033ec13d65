"""The second executor: compiled plans as Structured Streaming on Spark."""
