"""Remove the records of this machine. What is published and what the README shows stay."""

from __future__ import annotations

import argparse

from deltamark.harness.cli.options import add_sf
from deltamark.harness.cli.results.tables import add_machine, directory
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.results import store

FILES = (store.RECORDS, store.FINDINGS, store.SESSIONS, "report.html")


def options(parser: argparse.ArgumentParser) -> None:
    add_sf(parser)
    add_results(parser)
    add_machine(parser)


def run(chosen: argparse.Namespace) -> int:
    where = directory(chosen)
    with store.writing(where):
        read, found = store.read(where), store.findings(where)
        for name in FILES:
            (where / name).unlink(missing_ok=True)
    print(f"{where}: {len(read.records) + read.foreign + len(found)} records removed")
    return 0
