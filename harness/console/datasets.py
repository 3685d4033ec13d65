"""Datasets of a benchmark, made on demand with a progress line."""

from __future__ import annotations

import time

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted, make_data
from deltamark.harness.console.console import say_folded
from deltamark.harness.console.progress import ProgressLine


def open_quietly(wanted: Wanted) -> Dataset:
    """Open a dataset, generating it first if it is missing; print nothing on standard output."""
    with ProgressLine() as progress:
        return make_data(wanted, progress.report)[0]


def open_dataset(wanted: Wanted) -> Dataset:
    """Open a dataset, generating it first if it is missing, and print its size."""
    started = time.monotonic()
    with ProgressLine() as progress:
        dataset, made = make_data(wanted, progress.report)
    manifest = dataset.manifest
    rows = sum(relation.rows for relation in manifest.relations.values())
    size = sum(chunk.bytes for chunk in manifest.files) / 1e6
    steps = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in progress.seconds.items() if seconds)
    origin = f"made in {time.monotonic() - started:.1f} s ({steps})" if made else "already there"
    say_folded(f"{dataset.directory}: SF {manifest.sf}, {rows:,} rows, {size:,.1f} MB, {origin}")
    return dataset
