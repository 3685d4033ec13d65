"""The command `compare`: its sides, its cells, and the files that it writes."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from pathlib import Path
from random import Random
from typing import TypeVar

from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError, naming
from deltamark.harness.benchmarks.benchmark import DEFAULT, anywhere, benchmark
from deltamark.harness.benchmarks.cell import AnyCell, Cell
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import add_data, batch_sizes, data_request, seconds, words, worker_counts
from deltamark.harness.cli.parser import Parser
from deltamark.harness.cli.sweep_options import rmat_scale
from deltamark.harness.compare.cells import (
    PHYSICAL,
    QUERIES,
    SCALE,
    SF,
    WORKLOADS,
    SideData,
    cells,
    motif_cells,
    refuse_unknown_variants,
)
from deltamark.harness.compare.gate import ComparisonHeader, Gate, Outcome, as_json, as_markdown, as_text, verdict_line
from deltamark.harness.compare.sides import (
    CellSettings,
    ComparedSuite,
    OwnRepository,
    SideRequest,
    SideSpec,
    opener,
    refuse_benchmark,
    sides,
)
from deltamark.harness.compare.trees import DIRECTORY
from deltamark.harness.console.console import say
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.engines.external.program import hello_within
from deltamark.harness.measure.windows import checkpoints
from deltamark.harness.suites.reporter import machine_line
from deltamark.harness.suites.suite import refuse_others
from deltamark.harness.system import machine
from deltamark.harness.system.clock import control_seconds

T = TypeVar("T")

SIDES = ("base", "head")

SETTINGS: Mapping[ComparedSuite, tuple[str, ...]] = {
    "tpch": (
        "benchmark", "sf", "queries", "workload", "logical", "physical", "repo", "build", "exec", "workers", "variant",
    ),
    "graph": ("scale",),
}  # fmt: skip
"""The settings that only one suite has."""


def _add_settings(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "--suite", choices=SETTINGS, default="tpch", help="queries of a benchmark, or motifs in a graph (default: tpch)"
    )
    add_data(parser)
    parser.set_defaults(sf=Decimal(SF))
    add("--base", default="main", metavar="SIDE", help="commit or engine to compare with (default: main)")
    add("--head", default="", metavar="SIDE", help="commit or engine to judge (default: the current work tree)")
    add("--repo", type=Path, metavar="DIR", help="repository of an engine, whose commits the sides are")
    add("--build", default="", metavar="COMMAND", help="command that builds a commit of REPO (default: none)")
    add("--exec", default="", metavar="PROGRAM", help="the engine of a commit of REPO: a path in it, and arguments")
    add("--workers", type=worker_counts, default=(), metavar="W,W", help="workers of base and head (default: 1)")
    text = "variants of base and head; an empty one is the first, as in ,sql (default: the first)"
    add("--variant", type=_pair, default=(), metavar="V,V", help=text)
    queries, workloads, physical = (",".join(map(str, usual)) for usual in (QUERIES, WORKLOADS, PHYSICAL))
    text = f"queries to run (default: {queries}; all of another benchmark than TPC-H)"
    add("--queries", type=words, default=(), metavar="Q,Q", help=text)
    text = f"workloads to run (default: {workloads}; of another benchmark its own)"
    add("--workload", type=words, default=(), metavar="W,W", help=text)
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
    samples: Path

    @classmethod
    def of(cls, suite: ComparedSuite) -> OutputFiles:
        directory = machine.ROOT / DIRECTORY
        verdict = directory / f"verdict-{suite}.txt"
        return cls(directory / f"summary-{suite}.md", verdict, verdict.with_suffix(".json"))

    def remove(self) -> None:
        """Remove the files of an earlier comparison: if this one fails, its verdict must not be read as the result."""
        for file in (self.verdict, self.samples, self.summary):
            file.unlink(missing_ok=True)

    def write(self, outcome: Outcome, header: ComparisonHeader) -> None:
        self.summary.write_text(as_markdown(outcome, header), encoding="utf-8")
        self.samples.write_bytes(as_json(outcome, header))
        self.verdict.write_text(f"{outcome.verdict}\n", encoding="utf-8")


@command("compare", _add_settings)
def compare(args: Namespace) -> int:
    """Compare the speed, the memory and the answers of two commits, two engines, or two settings of one engine.

    A side is a commit of this repository, the name of an engine (embedded, duckdb, a peer, exec:PROGRAM), or with REPO
    a commit of the repository of an engine, which BUILD builds and EXEC starts. WORKERS and VARIANT may have two
    values, for base and for head. Base and head (by default the current work tree) are measured together, in
    `.compare/`. Both measure the same BENCHMARK, which a commit from before benchmarks were folders cannot.

    Exit code 1 means a regression, 2 a wrong answer or a crash of head, or an error; 0 means neither, also if nothing
    could be judged. The last line and `.compare/verdict-tpch.txt` (`.compare/verdict-graph.txt` for SUITE=graph) have
    the verdict as one word: wrong, interrupted, regression, undecided, improvement or unchanged. `undecided` means that
    a time was too short to be judged, or that an interval was too wide; it never counts as `unchanged`. make ends with
    2 whenever its target fails: read the file, or run `.venv/bin/python -m harness compare BASE=main` for the exit code
    itself.

    `.compare/verdict-tpch.json` has the verdict with all samples. The summary is also written to
    `.compare/summary-tpch.md`, and appended to the file that GITHUB_STEP_SUMMARY names.

    Examples: make compare BASE=main; make compare BASE=embedded HEAD=duckdb BENCHMARK=examples/shop; make compare
    BASE=exec:./old HEAD=exec:./new; make compare BASE=embedded HEAD=embedded WORKERS=1,2; make compare REPO=../mine
    BASE=main BUILD="cargo build --release" EXEC=target/release/mine
    """
    other_settings = {name for suite, names in SETTINGS.items() if suite != args.suite for name in names}
    given = {name for name, value in args.usual.items() if vars(args)[name] != value}
    refuse_others(args.suite, {*args.usual} - other_settings, given)
    if args.suite != "graph":
        _fill(args)
    files, facts = OutputFiles.of(args.suite), machine.facts()
    files.remove()
    base, head = _requests(args)
    checked_out = sides(machine.ROOT, base, head, args.suite, _own_repository(args))
    with hello_within(args.timeout), checked_out as both:
        request = _motifs(args) if args.suite == "graph" else _queries(args, both)
        say(
            f"{len(request.cells)} cell{'s' if len(request.cells) != 1 else ''}\n"
            + "\n".join(side.label for side in both)
        )
        for warning in [*machine.warnings(facts), *_packages(both)]:
            say(f"warning: {warning}")
        with ProgressLine() as progress:
            data = request.data.make(both, progress.report)
            open_sides = opener(data, args.timeout, args.benchmark)
            outcome = Gate(request.cells, open_sides, control_seconds, progress.report).run()
        header = ComparisonHeader(both[0].label, both[1].label, machine_line(facts), _command(args))
        files.write(outcome, header)
        _publish(files.summary)
        written = f"all numbers: {files.summary}, and with all samples: {files.samples}"
        say(f"{as_text(outcome)}{written}\n{verdict_line(outcome, files.verdict)}")
    return outcome.exit_code


def _fill(args: Namespace) -> None:
    """Fill in the queries and the workloads that were not given."""
    home = benchmark(args.benchmark)
    of_tpch = args.benchmark == DEFAULT
    args.queries = args.queries or (QUERIES if of_tpch else tuple(home.queries))
    args.workload = args.workload or (WORKLOADS if of_tpch else (home.workload,))


def _requests(args: Namespace) -> tuple[SideRequest, SideRequest]:
    workers, variants = _both("WORKERS", args.workers, 0), _both("VARIANT", args.variant, "")
    if args.suite != "graph":
        refuse_unknown_variants(benchmark(args.benchmark), args.queries, variants)
    references = args.base, args.head
    settings = [CellSettings(workers=count, variant=variant) for count, variant in zip(workers, variants, strict=True)]
    base, head = map(SideRequest, references, settings)
    return base, head


def _both(name: str, values: tuple[T, ...], usual: T) -> tuple[T, T]:
    """Return the values of a setting for base and head: one value is meant for both."""
    if len(values) > len(SIDES):
        raise DeltamarkError(f"{name} has {len(values)} values", ",".join(map(str, values)), "give one, or one a side")
    found = values or (usual,)
    return found[0], found[-1]


def _pair(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _own_repository(args: Namespace) -> OwnRepository | None:
    if args.repo is None:
        if args.build or args.exec:
            given = f"BUILD={args.build}" if args.build else f"EXEC={args.exec}"
            raise DeltamarkError("no repository", given, "add REPO=DIR, whose commits are compared")
        return None
    if not args.exec:
        raise DeltamarkError("no program", args.repo, "add EXEC=PROGRAM, the engine that a commit of REPO contains")
    return OwnRepository(args.repo.resolve(), args.build, args.exec)


def _queries(args: Namespace, both: tuple[SideSpec, SideSpec]) -> CompareRequest:
    home, other = benchmark(args.benchmark), "" if args.benchmark == DEFAULT else anywhere(args.benchmark)
    if other:
        refuse_benchmark(both, args.benchmark)
    sf, batchings = str(home.source.scale(args.sf)), product(args.logical, args.physical)
    listed = cells(home, sf, args.queries, args.workload, batchings)
    dataset = ensure(args)
    rounds: dict[AnyCell, list[int]] = {
        cell: _checkpoints(cell, both, workload(dataset, cell.workload)) for cell in listed
    }
    return CompareRequest(rounds, SideData("tpch", args.data, str(args.sf), data_request(args).master, other))


def _checkpoints(cell: Cell, both: tuple[SideSpec, SideSpec], work: Workload) -> list[int]:
    """Return the rounds after which both sides know their answers: the end of a batch is also one of a logical time."""
    found = [checkpoints(side.settings.on_query(cell), work, Random()) for side in both]  # noqa: S311 (no secret)
    return min(found, key=lambda rounds: sum(each % (cell.logical * cell.physical) for each in rounds[:-1]))


def _motifs(args: Namespace) -> CompareRequest:
    data = SideData("graph", args.data, str(args.scale), data_request(args).master)
    return CompareRequest({cell: [] for cell in motif_cells(args.scale)}, data)


def _packages(both: tuple[SideSpec, SideSpec]) -> Iterator[str]:
    base, head = ((side.root / "requirements.lock").read_bytes() for side in both)
    if base != head:
        yield "the sides pin different packages, but both run with the packages of this environment"


def _command(args: Namespace) -> str:
    names = ("suite", "base", "head", *SETTINGS[args.suite])
    named = {name: vars(args)[name] for name in names if name != "benchmark" or args.benchmark != DEFAULT}
    settings = {name.upper(): _word(value) for name, value in named.items() if value}
    return " ".join(["make compare", *(f"{name}={shlex.quote(value)}" for name, value in settings.items())])


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _publish(summary: Path) -> None:
    """Append the summary to the file that a workflow names in the environment."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with naming(path), Path(path).open("a", encoding="utf-8") as file:
            file.write(summary.read_text(encoding="utf-8"))
