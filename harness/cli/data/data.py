"""Generate TPC-H and pre-batch it into Arrow files, once; existing complete data is reused."""

from __future__ import annotations

import argparse

from deltamark.datagen.dataset import Dataset
from deltamark.harness.cli.options import add_data as options
from deltamark.harness.cli.options import wanted
from deltamark.harness.console.datasets import open_dataset, open_quietly

__all__ = ["options", "run"]


def run(args: argparse.Namespace) -> int:
    ensure(args)
    return 0


def quietly(args: argparse.Namespace) -> Dataset:
    """Open the dataset of a command that prints only its own results."""
    return open_quietly(wanted(args))


def ensure(args: argparse.Namespace) -> Dataset:
    """Open the dataset of a command, and print its size."""
    return open_dataset(wanted(args))
