"""The command that removes records."""

from __future__ import annotations

import argparse

from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import add_sf
from deltamark.harness.cli.results.tables import add_machine, directory
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.console.console import say
from deltamark.harness.results import store

FILES = (store.RECORDS, store.SESSIONS, "report.html")


def options(parser: argparse.ArgumentParser) -> None:
    add_sf(parser)
    add_results(parser)
    add_machine(parser)


@command("clean-results", options)
def run(args: argparse.Namespace) -> int:
    """Remove the records of this machine. Published numbers and the reference records stay."""
    path = directory(args)
    with store.writing(path):
        stored = store.read(path)
        for name in FILES:
            (path / name).unlink(missing_ok=True)
    say(f"{path}: {len(stored.records) + stored.foreign} records removed")
    return 0
