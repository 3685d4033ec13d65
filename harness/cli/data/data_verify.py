"""Read every byte of the data again and compare its digests.

With SOURCE=yes, DuckDB also compares every row with a newly generated one.
"""

from __future__ import annotations

import argparse

from deltamark.datagen.dataset import Dataset
from deltamark.harness.check.generated_data import check_source
from deltamark.harness.cli.options import add_data, data_request
from deltamark.harness.console.console import say
from deltamark.harness.console.progress import ProgressLine


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    text = "also generate the rows again, and compare them"
    parser.add_argument("--source", nargs="?", choices=("yes", "no"), const="yes", default="no", help=text)


def run(args: argparse.Namespace) -> int:
    dataset = Dataset.open(data_request(args).directory)
    with ProgressLine() as progress:
        dataset.verify(lambda done, total: progress.report("comparing digests, bytes", done, total))
        if args.source == "yes":
            check_source(dataset, progress.report)
    generated = ", and every row equals a newly generated one" if args.source == "yes" else ""
    say(f"{dataset.directory}: {len(dataset.manifest.files)} files are unchanged{generated}")
    return 0
