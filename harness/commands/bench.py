"""The benchmark. The engine and the tables come with the next steps: for now this makes the data."""

from __future__ import annotations

import argparse

from harness.commands.data import ensure
from harness.options import add_data as options

__all__ = ["options", "run"]


def run(chosen: argparse.Namespace) -> int:
    ensure(chosen)
    print("the data is ready; the engine and the tables are not built yet")
    return 0
