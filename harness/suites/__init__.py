"""Benchmark suites: a suite lists its cells, measures one of them in a process, and turns their records into tables.

The registry is harness/suites/registry.py; one runner (harness/suites/suite.py) measures the cells of any suite.
"""
