"""Read every byte of the data again and compare digests; with --source, generate the rows again and compare each."""

from __future__ import annotations

import argparse

from deltamark.datagen.dataset import Dataset
from deltamark.harness.check.generated_data import check_source
from deltamark.harness.cli.options import add_data, wanted
from deltamark.harness.console.progress import ProgressLine


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    text = "also generate the rows again and compare each, in DuckDB (default no)"
    parser.add_argument("--source", nargs="?", choices=("yes", "no"), const="yes", default="no", help=text)


def run(chosen: argparse.Namespace) -> int:
    dataset = Dataset.open(wanted(chosen).directory)
    with ProgressLine() as progress:
        dataset.verify(lambda done, total: progress.report("comparing digests, bytes", done, total))
        if chosen.source == "yes":
            check_source(dataset, progress.report)
    compared = ", and every row as the generator makes it" if chosen.source == "yes" else ""
    print(f"{dataset.directory}: {len(dataset.manifest.files)} files as they were made{compared}")
    return 0
