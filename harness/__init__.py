"""The harness: the command line, and all that measures, checks and shows."""
