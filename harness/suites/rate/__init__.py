"""The suite of rates: the highest rate that an engine sustains, and its latency at lower rates."""
