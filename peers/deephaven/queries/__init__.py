"""TPC-H in Deephaven's table operations: a module for each query."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

NAMES = {path.stem for path in Path(__file__).parent.glob("q*.py")}
QUERIES = {name: import_module(f"queries.{name}") for name in sorted(NAMES)}
"""The queries by name. One with IS_SCALAR always has one row, which is NULL if there is nothing to aggregate."""
