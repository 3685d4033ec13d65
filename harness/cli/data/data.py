"""Make the data of a benchmark, pre-batched into Arrow files, unless the directory has it already.

TPC-H, the Star Schema Benchmark and Nexmark are generated; the rows of any other folder are those of its Parquet files.
WORKLOAD=zipf:1 also makes the data of this workload of TPC-H, which otherwise is made when it is first needed.

Example: make data SF=0.01
"""

from __future__ import annotations

import argparse

from deltamark.datagen.dataset import Dataset
from deltamark.harness.cli.options import add_data, add_own_data, data_request
from deltamark.harness.console.progress import open_dataset, open_quietly


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_own_data(parser)


def run(args: argparse.Namespace) -> int:
    ensure(args)
    return 0


def quietly(args: argparse.Namespace) -> Dataset:
    """Open the data of a command, and make it if necessary, without printing anything on standard output."""
    return open_quietly(data_request(args))


def ensure(args: argparse.Namespace) -> Dataset:
    """Open the data of a command, make it if necessary, and print its size."""
    return open_dataset(data_request(args))
