"""TPC-H rows as pre-batched Arrow files, and the workloads over them. This package imports no query and no engine."""
