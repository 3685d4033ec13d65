"""The command that exports records."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from deltamark.datagen.schema import scale_factor
from deltamark.errors import DeltamarkError, naming
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import add_benchmark
from deltamark.harness.cli.results.tables import add_machine, directory, warn_of_foreign
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.console.console import say, warn
from deltamark.harness.console.table import counted
from deltamark.harness.results import store
from deltamark.harness.results.record import of_queries
from deltamark.harness.suites.suite import benchmark_setting
from deltamark.harness.system import machine
from deltamark.harness.tables.exports import EXPORTS, Encoded, ExportSource

STANDARD_OUTPUT = Path("-")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=tuple(EXPORTS), help="output format")
    parser.add_argument("--sf", type=scale_factor, help="scale factor of the exported cells (default: all)")
    add_benchmark(parser)
    add_results(parser)
    add_machine(parser)
    targets = ", ".join(export.target for export in EXPORTS.values())
    text = "git repository of the measured commits, for asv (default: this project)"
    parser.add_argument("--repo", type=Path, default=machine.ROOT, metavar="DIR", help=text)
    text = f"output file, - for standard output, or directory of asv (default: beside the records, {targets})"
    parser.add_argument("--output", type=Path, metavar="FILE", help=text)


@command("export", options)
def run(args: argparse.Namespace) -> int:
    """Write the records of a machine in a format that other tools read.

    github-action-benchmark, bencher and asv are for the tools of these names; csv and parquet have a row for each cell
    and a column for each field. A time is that of the fastest run, in seconds, and sizes are in bytes. Cells without
    numbers are left out.

    The page docs/exports.md describes the formats.
    """
    if args.format is None:
        raise DeltamarkError("no format", "FORMAT is not given", f"write FORMAT=NAME, one of {', '.join(EXPORTS)}")
    export, path = EXPORTS[args.format], directory(args)
    encoded = export.encode(_source(args, path))
    left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(encoded.left_out.items()))
    if not encoded.cells:
        remedy = "make bench, for asv in a work tree without changes"
        raise DeltamarkError("no cell has numbers to export", f"{path}, {left_out}", remedy)
    _write(encoded, args.output or path / export.target)
    if left_out:
        warn(f"{sum(encoded.left_out.values())} records are left out: {left_out}")
    return 0


def _source(args: argparse.Namespace, path: Path) -> ExportSource:
    """Read the records of the scale factor, or of all; raise an error if there are none."""
    stored = store.read(path)
    warn_of_foreign(stored, path)
    sf = "" if args.sf is None else str(args.sf)
    records = of_queries(stored.records, sf, args.benchmark)
    setting = f"{benchmark_setting(args.benchmark)}{f'SF={sf}' if sf else ''}".strip()
    if not records:
        problem = ", ".join(filter(None, [str(path), setting]))
        raise DeltamarkError("nothing is measured", problem, f"make bench {setting}".strip())
    last = max(store.sessions(path).values(), key=lambda header: header["started"], default=None)
    return ExportSource(records, path.resolve().name, last and last["machine"], args.repo.resolve())


def _write(encoded: Encoded, output: Path) -> None:
    if isinstance(encoded.content, Mapping):
        _write_directory(encoded.content, output)
    elif output == STANDARD_OUTPUT:
        sys.stdout.buffer.write(encoded.content)
        return
    else:
        with naming(output):
            output.write_bytes(encoded.content)
    say(f"{output}: {counted(encoded.cells, 'cell')}")


def _write_directory(files: Mapping[str, bytes], output: Path) -> None:
    if output == STANDARD_OUTPUT:
        raise DeltamarkError("a directory does not fit into standard output", output, "name one: OUTPUT=DIR")
    for name, content in files.items():
        path = output / name
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
