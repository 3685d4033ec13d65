"""Compare two commits, measured together by turns: is head slower than base, does it need more memory, is it wrong?
Base and head (the work tree as it is, by default) run in `.compare/`, with the packages of this environment.

Exit code 1: a regression, 2: a wrong answer or a crash of head, or an error; 0: neither, also where nothing could be
judged. The last line and `.compare/verdict-tpch.txt` (`.compare/verdict-graph.txt` for SUITE=graph) have the verdict in
one word: wrong, interrupted, regression, undecided, improvement or unchanged. `undecided` means that a time was too
short to be judged, or that an interval was too wide; it never counts as `unchanged`. make ends with 2 whenever its
target fails: read the file, or run `.venv/bin/python -m harness compare BASE=main` for the exit code itself.

The summary also goes to `.compare/summary-tpch.md` or `.compare/summary-graph.md`, and to the file that
GITHUB_STEP_SUMMARY names.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.graphs.make import make_graph
from deltamark.datagen.workload import workload
from deltamark.errors import naming
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import add_data, batch_sizes, seconds, wanted
from deltamark.harness.cli.sweep_options import rmat_scale, words
from deltamark.harness.compare.cells import PHYSICAL, QUERIES, SCALE, SF, WORKLOADS, cells, motif_cells
from deltamark.harness.compare.gate import Gate
from deltamark.harness.compare.side import opener
from deltamark.harness.compare.summary import Said, as_markdown, as_text, verdict_line
from deltamark.harness.compare.trees import DIRECTORY, Tree, trees
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.console.reporter import machine_line
from deltamark.harness.engines.registry import checkpoints
from deltamark.harness.measure import control_work
from deltamark.harness.measure.cell import AnyCell
from deltamark.harness.measure.client import Measuring
from deltamark.harness.results import machine
from deltamark.harness.results.record import TPCH
from deltamark.harness.suites.suite import refuse_others

GRAPH = "graph"
MOTIFS = "deltamark.harness.compare.motifs"
"""The module that measures motifs."""

SETTINGS = {TPCH: ("sf", "queries", "workload", "logical", "physical"), GRAPH: ("scale",)}


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = f"queries of {TPCH}, or motifs in a graph (default {TPCH})"
    add("--suite", choices=SETTINGS, default=TPCH, help=text)
    add_data(parser)
    parser.set_defaults(sf=Decimal(SF))
    add("--base", default="main", metavar="COMMIT", help="what to compare with (default main)")
    add("--head", default="", metavar="COMMIT", help="what to compare (default the work tree as it is)")
    add("--queries", type=words, default=QUERIES, metavar="Q,Q", help=f"which (default {','.join(QUERIES)})")
    add("--workload", type=words, default=WORKLOADS, metavar="W,W", help=f"which (default {','.join(WORKLOADS)})")
    add("--logical", type=batch_sizes, default=(1,), metavar="L,L", help="rounds that share a time (default 1)")
    text = f"logical batches at once (default {','.join(map(str, PHYSICAL))})"
    add("--physical", type=batch_sizes, default=PHYSICAL, metavar="P,P", help=text)
    add("--scale", type=rmat_scale, default=SCALE, metavar="S", help=f"of the graph rmat:S (default {SCALE})")
    add("--timeout", type=seconds, default=60.0, metavar="S", help="seconds that a run may take (default 60)")
    parser.set_defaults(usual=vars(parser.parse_args([])))


@dataclass(frozen=True)
class Asked:
    """What is compared: cells, with the rounds after which answers are checked, and what measures them."""

    cells: Mapping[AnyCell, list[int]]
    measuring: Measuring


@dataclass(frozen=True)
class Written:
    """The files that a comparison leaves."""

    summary: Path
    verdict: Path

    @classmethod
    def of(cls, suite: str) -> Written:
        directory = machine.ROOT / DIRECTORY
        return cls(directory / f"summary-{suite}.md", directory / f"verdict-{suite}.txt")

    def remove(self) -> None:
        """Remove those of an earlier comparison, whose verdict must not be read as that of one that failed."""
        for file in (self.verdict, self.summary):
            file.unlink(missing_ok=True)

    def write(self, markdown: str, verdict: str) -> None:
        self.summary.write_text(markdown, encoding="utf-8")
        self.verdict.write_text(f"{verdict}\n", encoding="utf-8")


def run(chosen: argparse.Namespace) -> int:
    others = {name for suite, names in SETTINGS.items() if suite != chosen.suite for name in names}
    given = {name for name, value in chosen.usual.items() if vars(chosen)[name] != value}
    refuse_others(chosen.suite, {*chosen.usual} - others, given)
    written, facts = Written.of(chosen.suite), machine.facts()
    written.remove()
    ask, module = (_motifs, MOTIFS) if chosen.suite == GRAPH else (_queries, Measuring.module)
    with trees(machine.ROOT, chosen.base, chosen.head, module=module) as both:
        asked = ask(chosen)
        print(f"{len(asked.cells)} cells\n" + "\n".join(tree.label for tree in both), flush=True)
        for warning in [*machine.warnings(facts), *_packages(both)]:
            print(f"warning: {warning}", flush=True)
        with ProgressLine() as progress:
            sides = opener(both, asked.measuring, chosen.timeout)
            found = Gate(asked.cells, sides, control_work.seconds, progress.report).run()
        said = Said(both[0].label, both[1].label, machine_line(facts), _command(chosen))
        markdown = as_markdown(found, said)
        written.write(markdown, found.verdict)
        _publish(markdown)
        print(f"{as_text(found)}all numbers: {written.summary}\n{verdict_line(found, written.verdict)}")
    return found.exit_code


def _queries(chosen: argparse.Namespace) -> Asked:
    listed = cells(str(chosen.sf), chosen.queries, chosen.workload, chosen.logical, chosen.physical)
    dataset = ensure(chosen)
    rounds: dict[AnyCell, list[int]] = {each: checkpoints(each, 0, workload(dataset, each.workload)) for each in listed}
    return Asked(rounds, Measuring(dataset.directory))


def _motifs(chosen: argparse.Namespace) -> Asked:
    with ProgressLine() as progress:
        made = make_graph(chosen.data, graph(f"rmat:{chosen.scale}"), wanted(chosen).master, progress.report)
    return Asked({cell: [] for cell in motif_cells(chosen.scale)}, Measuring(made, MOTIFS))


def _packages(both: tuple[Tree, Tree]) -> Iterator[str]:
    base, head = ((tree.root / "requirements.lock").read_bytes() for tree in both)
    if base != head:
        yield "the sides pin other packages, but both run with those that are installed here"


def _command(chosen: argparse.Namespace) -> str:
    settings = {name.upper(): _word(vars(chosen)[name]) for name in ("suite", "base", "head", *SETTINGS[chosen.suite])}
    return " ".join(["make compare", *(f"{name}={value}" for name, value in settings.items() if value)])


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _publish(markdown: str) -> None:
    """Append the summary to the file that a workflow names, if one does."""
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with naming(path), Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown)
