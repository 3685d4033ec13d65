"""Read every byte of the data again and compare its digests.

With SOURCE=yes, DuckDB also compares every row with a newly generated one. With WORKLOAD=zipf:1, the data of this
workload is checked, too: its digests, its references, its prices and the shares of its keys.
"""

from __future__ import annotations

import argparse

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.tpch import TPCH
from deltamark.datagen.workloads.zipf import exponents, skewed_directory
from deltamark.errors import DeltamarkError
from deltamark.harness.check.stored_data import check_skewed, check_source
from deltamark.harness.cli.options import add_data, add_own_data, data_request
from deltamark.harness.console.console import say
from deltamark.harness.console.progress import ProgressLine


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_own_data(parser)
    text = "also generate the rows again, and compare them"
    parser.add_argument("--source", nargs="?", choices=("yes", "no"), const="yes", default="no", help=text)


def run(args: argparse.Namespace) -> int:
    request = data_request(args)
    dataset = Dataset.open(request.directory)
    with ProgressLine() as progress:
        _verify(dataset, progress)
        if args.source == "yes" and request.source is not TPCH:
            raise DeltamarkError("rows that cannot be generated again", dataset.directory, "leave SOURCE out")
        if args.source == "yes":
            check_source(dataset, progress.report)
    _say(dataset, ", and every row equals a newly generated one" if args.source == "yes" else "")
    for exponent in exponents(request.workloads):
        skewed = Dataset.open(skewed_directory(dataset.directory, exponent))
        with ProgressLine() as progress:
            _verify(skewed, progress)
            check_skewed(dataset, skewed, exponent, progress.report)
        _say(skewed, f", and their keys follow Zipf's law with exponent {exponent}")
    return 0


def _verify(dataset: Dataset, progress: ProgressLine) -> None:
    dataset.verify(lambda done, total: progress.report("comparing digests, bytes", done, total))


def _say(dataset: Dataset, more: str) -> None:
    say(f"{dataset.directory}: {len(dataset.manifest.files)} files are unchanged{more}")
