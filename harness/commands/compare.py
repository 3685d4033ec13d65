"""Compare two commits, measured together by turns: is head slower than base, does it need more memory, is it wrong?
Base and head (the work tree as it is, by default) run in `.compare/`, with the packages of this environment.

Exit code 1: a regression, 2: a wrong answer or a crash of head. What is said also goes to `.compare/summary-tpch.md`,
of the suite of graphs `.compare/summary-graph.md`, and to the file that GITHUB_STEP_SUMMARY names.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from datagen.graph import graph
from datagen.make_graph import make_graph
from datagen.workload import workload
from deltamark import naming
from harness import control, machine, suites, telling
from harness.asked import rmat_scale, words
from harness.cell import AnyCell
from harness.client import Measuring
from harness.commands.data import ensure
from harness.compare.cells import PHYSICAL, QUERIES, SCALE, SF, WORKLOADS, cells, motif_cells
from harness.compare.gate import Gate
from harness.compare.side import opener
from harness.compare.summary import Said, as_markdown, as_text
from harness.compare.trees import DIRECTORY, Tree, trees
from harness.options import add_data, batch_sizes, seconds, wanted
from harness.progress import ProgressLine
from harness.subjects import checkpoints

GRAPH = "graph"
SETTINGS = {suites.TPCH: ("sf", "queries", "workload", "logical", "physical"), GRAPH: ("scale",)}


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = f"queries of {suites.TPCH}, or motifs in a graph (default {suites.TPCH})"
    add("--suite", choices=SETTINGS, default=suites.TPCH, help=text)
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


def run(chosen: argparse.Namespace) -> int:
    others = {name for suite, names in SETTINGS.items() if suite != chosen.suite for name in names}
    suites.only({*chosen.usual} - others, chosen, chosen.usual)
    asked = _motifs(chosen) if chosen.suite == GRAPH else _queries(chosen)
    facts = machine.facts()
    with trees(machine.ROOT, chosen.base, chosen.head, module=asked.measuring.module) as both:
        print(f"{len(asked.cells)} cells\n" + "\n".join(tree.label for tree in both))
        for warning in [*machine.warnings(facts), *_packages(both)]:
            print(f"warning: {warning}")
        with ProgressLine() as progress:
            sides = opener(both, asked.measuring, chosen.timeout)
            found = Gate(asked.cells, sides, control.seconds, progress.report).run()
        said = Said(both[0].label, both[1].label, telling.machine_words(facts), _command(chosen))
        print(as_text(found) + f"all numbers: {_publish(as_markdown(found, said), chosen.suite)}")
    return found.exit_code


def _queries(chosen: argparse.Namespace) -> Asked:
    dataset = ensure(chosen)
    listed = cells(str(chosen.sf), chosen.queries, chosen.workload, chosen.logical, chosen.physical)
    rounds: dict[AnyCell, list[int]] = {each: checkpoints(each, 0, workload(dataset, each.workload)) for each in listed}
    return Asked(rounds, Measuring(dataset.directory))


def _motifs(chosen: argparse.Namespace) -> Asked:
    with ProgressLine() as progress:
        made = make_graph(chosen.data, graph(f"rmat:{chosen.scale}"), wanted(chosen).master, progress.report)
    return Asked({cell: [] for cell in motif_cells(chosen.scale)}, Measuring(made, "harness.compare.motifs"))


def _packages(both: tuple[Tree, Tree]) -> Iterator[str]:
    base, head = ((tree.root / "requirements.lock").read_bytes() for tree in both)
    if base != head:
        yield "the sides pin other packages, but both run with those that are installed here"


def _command(chosen: argparse.Namespace) -> str:
    settings = {name.upper(): _word(vars(chosen)[name]) for name in ("suite", "base", "head", *SETTINGS[chosen.suite])}
    return " ".join(["make compare", *(f"{name}={value}" for name, value in settings.items() if value)])


def _word(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _publish(markdown: str, suite: str) -> Path:
    """Write the summary, and where a workflow asks for it; return where it is."""
    written = machine.ROOT / DIRECTORY / f"summary-{suite}.md"
    with naming(written):
        written.write_text(markdown, encoding="utf-8")
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with naming(path), Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown)
    return written
