"""The harness: the command line, engines, suites, measurements, checks, and the printing of results."""
