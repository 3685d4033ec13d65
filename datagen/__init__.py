"""TPC-H rows as pre-batched Arrow files, and the workloads over them. Knows no query and no engine."""
