"""Compare the speed, the memory and the answers of two commits.

Base and head (by default the current work tree) are measured together, in `.compare/`, with the packages of this
environment. Each side makes its own data, so base may also be a commit with another version of the data.

Exit code 1 means a regression, 2 a wrong answer or a crash of head, or an error; 0 means neither, also if nothing could
be judged. The last line and `.compare/verdict-tpch.txt` (`.compare/verdict-graph.txt` for SUITE=graph) have the verdict
as one word: wrong, interrupted, regression, undecided, improvement or unchanged. `undecided` means that a time was too
short to be judged, or that an interval was too wide; it never counts as `unchanged`. make ends with 2 whenever its
target fails: read the file, or run `.venv/bin/python -m harness compare BASE=main` for the exit code itself.

The summary is also written to `.compare/summary-tpch.md` or `.compare/summary-graph.md`, and appended to the file that
GITHUB_STEP_SUMMARY names.

Example: make compare BASE=main
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from deltamark.datagen.workload import workload
from deltamark.errors import naming
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import add_data, batch_sizes, data_request, seconds, words
from deltamark.harness.cli.sweep_options import rmat_scale
from deltamark.harness.compare.cells import PHYSICAL, QUERIES, SCALE, SF, WORKLOADS, cells, motif_cells
from deltamark.harness.compare.data import SideData
from deltamark.harness.compare.gate import Gate
from deltamark.harness.compare.layouts import ComparedSuite
from deltamark.harness.compare.side import opener
from deltamark.harness.compare.summary import ComparisonHeader, as_markdown, as_text, verdict_line
from deltamark.harness.compare.trees import DIRECTORY, Tree, trees
from deltamark.harness.console.console import say
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.console.reporter import machine_line
from deltamark.harness.measure import control_work
from deltamark.harness.measure.cell import AnyCell
from deltamark.harness.measure.windows import checkpoints
from deltamark.harness.results import machine
from deltamark.harness.suites.suite import refuse_others

SETTINGS: Mapping[ComparedSuite, tuple[str, ...]] = {
    "tpch": ("sf", "queries", "workload", "logical", "physical"),
    "graph": ("scale",),
}
"""The settings that only one suite has."""


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--suite", choices=SETTINGS, default="tpch", help="queries of TPC-H, or motifs in a graph (default: tpch)")
    add_data(parser)
    parser.set_defaults(sf=Decimal(SF))
    add("--base", default="main", metavar="COMMIT", help="commit to compare with (default: main)")
    add("--head", default="", metavar="COMMIT", help="commit to judge (default: the current work tree)")
    queries, workloads, physical = (",".join(map(str, usual)) for usual in (QUERIES, WORKLOADS, PHYSICAL))
    add("--queries", type=words, default=QUERIES, metavar="Q,Q", help=f"queries to run (default: {queries})")
    add("--workload", type=words, default=WORKLOADS, metavar="W,W", help=f"workloads to run (default: {workloads})")
    add("--logical", type=batch_sizes, default=(1,), metavar="L,L", help="rounds that share a time (default: 1)")
    text = f"logical batches fed at once (default: {physical})"
    add("--physical", type=batch_sizes, default=PHYSICAL, metavar="P,P", help=text)
    text = f"scale of the R-MAT graph, which has 2^S vertices (default: {SCALE})"
    add("--scale", type=rmat_scale, default=SCALE, metavar="S", help=text)
    add("--timeout", type=seconds, default=60.0, metavar="S", help="time limit of a run, in seconds (default: 60)")
    parser.set_defaults(usual=vars(parser.parse_args([])))


@dataclass(frozen=True)
class CompareRequest:
    """The cells to compare, each with the rounds after which its answers are checked, and their data."""

    cells: Mapping[AnyCell, list[int]]
    data: SideData


@dataclass(frozen=True)
class OutputFiles:
    """The files that a comparison of a suite writes."""

    summary: Path
    verdict: Path

    @classmethod
    def of(cls, suite: ComparedSuite) -> OutputFiles:
        directory = machine.ROOT / DIRECTORY
        return cls(directory / f"summary-{suite}.md", directory / f"verdict-{suite}.txt")

    def remove(self) -> None:
        """Remove the files of an earlier comparison: if this one fails, its verdict must not be read as the result."""
        for file in (self.verdict, self.summary):
            file.unlink(missing_ok=True)

    def write(self, markdown: str, verdict: str) -> None:
        self.summary.write_text(markdown, encoding="utf-8")
        self.verdict.write_text(f"{verdict}\n", encoding="utf-8")


def run(args: argparse.Namespace) -> int:
    other_settings = {name for suite, names in SETTINGS.items() if suite != args.suite for name in names}
    given = {name for name, value in args.usual.items() if vars(args)[name] != value}
    refuse_others(args.suite, {*args.usual} - other_settings, given)
    files, facts = OutputFiles.of(args.suite), machine.facts()
    files.remove()
    with trees(machine.ROOT, args.base, args.head, suite=args.suite) as both:
        request = _motifs(args) if args.suite == "graph" else _queries(args)
        say(f"{len(request.cells)} cells\n" + "\n".join(tree.label for tree in both))
        for warning in [*machine.warnings(facts), *_packages(both)]:
            say(f"warning: {warning}")
        with ProgressLine() as progress:
            data = request.data.make(both, progress.report)
            outcome = Gate(request.cells, opener(data, args.timeout), control_work.seconds, progress.report).run()
        header = ComparisonHeader(both[0].label, both[1].label, machine_line(facts), _command(args))
        markdown = as_markdown(outcome, header)
        files.write(markdown, outcome.verdict)
        _publish(markdown)
        say(f"{as_text(outcome)}all numbers: {files.summary}\n{verdict_line(outcome, files.verdict)}")
    return outcome.exit_code


def _queries(args: argparse.Namespace) -> CompareRequest:
    listed = cells(str(args.sf), args.queries, args.workload, args.logical, args.physical)
    dataset = ensure(args)
    rounds: dict[AnyCell, list[int]] = {cell: checkpoints(cell, 0, workload(dataset, cell.workload)) for cell in listed}
    return CompareRequest(rounds, SideData("tpch", args.data, str(args.sf), data_request(args).master))


def _motifs(args: argparse.Namespace) -> CompareRequest:
    data = SideData("graph", args.data, str(args.scale), data_request(args).master)
    return CompareRequest({cell: [] for cell in motif_cells(args.scale)}, data)


def _packages(both: tuple[Tree, Tree]) -> Iterator[str]:
    base, head = ((tree.root / "requirements.lock").read_bytes() for tree in both)
    if base != head:
        yield "the sides pin different packages, but both run with the packages of this environment"


def _command(args: argparse.Namespace) -> str:
    settings = {name.upper(): _word(vars(args)[name]) for name in ("suite", "base", "head", *SETTINGS[args.suite])}
    return " ".join(["make compare", *(f"{name}={value}" for name, value in settings.items() if value)])


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _publish(markdown: str) -> None:
    """Append the summary to the file that a workflow names in the environment."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with naming(path), Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown)
