"""Compare two commits, measured together by turns: is head slower than base, does it need more memory, is it wrong?
Base and head (the work tree as it is, by default) run in `.compare/`, with the packages of this environment.

Exit code 1: a regression, 2: a wrong answer or a crash of head. What is said also goes to `.compare/summary.md`, and to
the file that GITHUB_STEP_SUMMARY names.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

from datagen.dataset import Dataset
from datagen.workload import workload
from harness import control, machine, telling
from harness.asked import words
from harness.cell import Cell
from harness.commands.data import ensure
from harness.compare.cells import PHYSICAL, QUERIES, SF, WORKLOADS, cells
from harness.compare.gate import Gate
from harness.compare.side import opener
from harness.compare.summary import Said, as_markdown, as_text
from harness.compare.trees import DIRECTORY, Tree, trees
from harness.options import add_data, numbers
from harness.progress import ProgressLine
from harness.subjects import checkpoints

SUMMARY = "summary.md"


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_data(parser)
    parser.set_defaults(sf=Decimal(SF))
    add("--base", default="main", metavar="COMMIT", help="what to compare with (default main)")
    add("--head", default="", metavar="COMMIT", help="what to compare (default the work tree as it is)")
    add("--queries", type=words, default=QUERIES, metavar="Q,Q", help=f"which (default {','.join(QUERIES)})")
    add("--workload", type=words, default=WORKLOADS, metavar="W,W", help=f"which (default {','.join(WORKLOADS)})")
    add("--logical", type=numbers, default=(1,), metavar="L,L", help="rounds that share a time (default 1)")
    text = f"logical batches at once (default {','.join(map(str, PHYSICAL))})"
    add("--physical", type=numbers, default=PHYSICAL, metavar="P,P", help=text)
    add("--timeout", type=float, default=60.0, metavar="S", help="seconds that a run may take (default 60)")


def run(chosen: argparse.Namespace) -> int:
    dataset = ensure(chosen)
    wanted = cells(str(chosen.sf), chosen.queries, chosen.workload, chosen.logical, chosen.physical)
    for name in chosen.workload:
        workload(dataset, name)
    facts = machine.facts()
    with trees(machine.ROOT, chosen.base, chosen.head) as both:
        print(f"{len(wanted)} cells\n" + "\n".join(tree.label for tree in both))
        for warning in [*machine.warnings(facts), *_packages(both)]:
            print(f"warning: {warning}")
        with ProgressLine() as progress:
            sides = opener(both, dataset.directory, chosen.timeout)
            found = Gate(wanted, sides, _rounds(dataset), control.seconds, progress.report).run()
        said = Said(both[0].label, both[1].label, telling.machine_words(facts), _command(chosen))
        print(as_text(found) + f"all numbers: {_publish(as_markdown(found, said))}")
    return found.exit_code


def _rounds(dataset: Dataset) -> Callable[[Cell], list[int]]:
    """Return after how many rounds a cell's answers are compared with DuckDB's."""
    return lambda cell: checkpoints(cell, 0, workload(dataset, cell.workload))


def _packages(both: tuple[Tree, Tree]) -> Iterator[str]:
    base, head = ((tree.root / "requirements.lock").read_bytes() for tree in both)
    if base != head:
        yield "the sides pin other packages, but both run with those that are installed here"


def _command(chosen: argparse.Namespace) -> str:
    settings = {
        "BASE": chosen.base, "HEAD": chosen.head, "SF": str(chosen.sf), "QUERIES": ",".join(chosen.queries),
        "WORKLOAD": ",".join(chosen.workload), "LOGICAL": ",".join(map(str, chosen.logical)),
        "PHYSICAL": ",".join(map(str, chosen.physical)),
    }  # fmt: skip
    return " ".join(["make compare", *(f"{name}={value}" for name, value in settings.items() if value)])


def _publish(markdown: str) -> Path:
    """Write the summary, and where a workflow asks for it; return where it is."""
    written = machine.ROOT / DIRECTORY / SUMMARY
    written.write_text(markdown, encoding="utf-8")
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(markdown)
    return written
