"""Generate TPC-H and pre-batch it into Arrow files, once: data that is there and whole is used."""

from __future__ import annotations

import argparse
import time

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import make_data
from deltamark.harness.cli.options import add_data as options
from deltamark.harness.cli.options import wanted
from deltamark.harness.console.progress import ProgressLine

__all__ = ["options", "run"]


def run(chosen: argparse.Namespace) -> int:
    ensure(chosen)
    return 0


def quietly(chosen: argparse.Namespace) -> Dataset:
    """Open the data that a command asks for, making it if need be; what the command prints is its own."""
    with ProgressLine() as progress:
        return make_data(wanted(chosen), progress.report)[0]


def ensure(chosen: argparse.Namespace) -> Dataset:
    """Open the data that a command asks for, making it if need be, and say what it is."""
    started = time.monotonic()
    with ProgressLine() as progress:
        dataset, made = make_data(wanted(chosen), progress.report)
    manifest = dataset.manifest
    rows = sum(relation.rows for relation in manifest.relations.values())
    size = sum(chunk.bytes for chunk in manifest.files) / 1e6
    steps = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in progress.took.items() if seconds)
    how = f"made in {time.monotonic() - started:.1f} s ({steps})" if made else "already there"
    print(f"{dataset.directory}: SF {manifest.sf}, {rows:,} rows, {size:,.1f} MB, {how}")
    return dataset
