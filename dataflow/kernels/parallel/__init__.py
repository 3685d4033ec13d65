"""Several workers: key partitioning, exchange, and aggregation by prefix sums."""
