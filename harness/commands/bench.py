"""The benchmark. The queries and their tables come with the next steps: for now this makes the data."""

from __future__ import annotations

import argparse

from harness.commands.data import ensure
from harness.options import add_data as options

__all__ = ["options", "run"]


def run(chosen: argparse.Namespace) -> int:
    ensure(chosen)
    print("the data is ready; the queries and tables are not built yet (make bench-engine measures the engine)")
    return 0
