"""Generate TPC-H and pre-batch it into Arrow files, unless the directory has the data already.

Example: make data SF=0.01
"""

from __future__ import annotations

import argparse
import time

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import make_data
from deltamark.harness.cli.options import add_data as options
from deltamark.harness.cli.options import data_request
from deltamark.harness.console.progress import ProgressLine

__all__ = ["options", "run"]


def run(args: argparse.Namespace) -> int:
    ensure(args)
    return 0


def quietly(args: argparse.Namespace) -> Dataset:
    """Open the data of a command, and make it if necessary, without printing anything on standard output."""
    with ProgressLine() as progress:
        return make_data(data_request(args), progress.report)[0]


def ensure(args: argparse.Namespace) -> Dataset:
    """Open the data of a command, make it if necessary, and print its size."""
    started = time.monotonic()
    with ProgressLine() as progress:
        dataset, is_new = make_data(data_request(args), progress.report)
    manifest = dataset.manifest
    rows = sum(relation.rows for relation in manifest.relations.values())
    megabytes = sum(chunk.bytes for chunk in manifest.files) / 1e6
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in progress.took.items() if seconds)
    origin = f"made in {time.monotonic() - started:.1f} s ({phases})" if is_new else "already there"
    print(f"{dataset.directory}: SF {manifest.sf}, {rows:,} rows, {megabytes:,.1f} MB, {origin}")
    return dataset
