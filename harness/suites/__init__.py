"""Benchmark suites: a suite lists its cells, opens their measurer, and turns their records into tables.

The registry is harness/suites/registry.py; one runner (harness/suites/plan.py) measures the cells of any suite.
"""
