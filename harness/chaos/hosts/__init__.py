"""Hosts on this machine, a Spark cluster on them, and faults of its links, machines and disks."""
