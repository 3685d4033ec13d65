"""Measure all queries in one dataflow, beside the same queries alone, in one run.

First all answers are compared with DuckDB's at random rounds. Then: the load of the whole stream, together and alone by
turns; what both keep; which arrangements are shared by whom; and what it takes a query to come while the others run.
Exit code 1: an answer was wrong.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from datagen.workload import Workload, workload
from harness import shared
from harness.asked import words
from harness.cell import Cell
from harness.commands.data import ensure
from harness.options import add_data, at_least_one, numbers
from harness.stats import median, percentile
from harness.tables.entry import Entry, Table, brief, count, rate, ratio, short
from harness.tables.entry import words as said
from harness.tables.render import FORMATS
from queries.catalogue import QUERIES, query

CHECKED = 5
"""Rounds after which answers are compared, the last one among them."""


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_data(parser)
    add("--queries", type=words, default=tuple(QUERIES), metavar="Q,Q", help="which (default all 22)")
    add("--logical", type=numbers, default=(1,), metavar="L,L", help="rounds that share a time (default 1)")
    default = (1000, 10_000, 100_000, 1_000_000)
    add("--physical", type=numbers, default=default, metavar="P,P", help="logical batches at once (default the post's)")
    add("--runs", type=at_least_one, default=3, help="timed runs (default 3)")
    add("--seed", type=int, default=0, help="of the rounds at which answers are compared (default 0)")
    fuel = "pieces of work a batch, where a query comes bit by bit (default 2)"
    add("--fuel", type=at_least_one, default=2, help=fuel)
    add("--format", choices=FORMATS, default="text", help="how to print the tables (default text)")


def run(chosen: argparse.Namespace) -> int:
    dataset = ensure(chosen)
    work = workload(dataset, "insert")
    for name in chosen.queries:
        query(name)  # an unknown one is an error
    cells = {name: Cell(name, str(chosen.sf)) for name in chosen.queries}
    plans = shared.plans(cells, dataset, work)
    print(f"{len(cells)} queries in one dataflow, SF {chosen.sf}, 1 worker; load before {os.getloadavg()[0]:.2f}")
    logical, physical = chosen.logical[0], max(chosen.physical)
    wrong = shared.check(cells, dataset, work, logical, physical, _rounds(work, logical, chosen.seed))
    if wrong:
        print(f"WRONG: {wrong}")
        return 1
    print(f"all answers are DuckDB's after {CHECKED} numbers of rounds\n", flush=True)
    show = FORMATS[chosen.format]
    turns = {
        (logical, physical): shared.by_turns(plans, dataset, work, logical, physical, chosen.runs)
        for logical in chosen.logical
        for physical in chosen.physical
    }
    print(show(_speed(turns)), flush=True)
    print(show(_state(next(iter(turns.values())))), flush=True)
    print(show(_arrangements(shared.sharing(plans, dataset, work))), flush=True)
    print(show(_coming(shared.coming(plans, dataset, work))), flush=True)
    print(show(_crowded(list(shared.crowding(plans, dataset, work, chosen.fuel)), chosen.fuel)))
    return 0


def _rounds(work: Workload, logical: int, seed: int) -> list[int]:
    drawn = [Random(seed + at).randrange(1, work.rounds) // logical * logical for at in range(CHECKED - 1)]  # noqa: S311
    return sorted({max(each, logical) for each in drawn} | {work.rounds})


def _speed(turns: Mapping[tuple[int, int], shared.Turns]) -> Table:
    headers = ["L x P", "together", "whole input", "alone, sum", "together / alone"]
    rows: list[list[Entry]] = []
    for (logical, physical), found in turns.items():
        sums = [sum(each.seconds for each in run) for run in found.timed_alone]
        best = min(found.timed_together, key=lambda each: each.seconds)
        pairs = [mine.seconds / other for mine, other in zip(found.timed_together, sums, strict=True)]
        rows.append([
            said(f"{short(logical)} x {short(physical)}"), brief(best.seconds), rate(best.tuples / best.seconds),
            brief(min(sums)), ratio(median(pairs)),
        ])  # fmt: skip
    notes = ["whole input: each row of the relations counted once, however many queries read it",
             "the ratio is the median of pairs that ran one after the other"]  # fmt: skip
    return Table("shared", "All queries in one dataflow, and each alone", headers, rows, notes)


def _state(turns: shared.Turns) -> Table:
    rows = [
        [
            said(what),
            count(sum(each.state_rows for each in loads)),
            count(_megabytes(sum(each.state_bytes for each in loads))),
            count(_megabytes(max(each.peak_bytes for each in loads))),
        ]
        for what, loads in (("together", [turns.together]), ("alone, sum", turns.alone))
    ]
    notes = ["the peak is of the process, with the batches and the program; alone: of the largest query"]
    return Table("shared state", "What is kept at the end", ["", "rows", "MB", "peak MB"], rows, notes)


def _megabytes(size: int) -> int:
    return round(size / 1e6)


def _arrangements(found: list[shared.Shared]) -> Table:
    rows = [[said(each.what), said(" ".join(each.queries)), count(each.rows), count(_megabytes(each.size))]
            for each in found]  # fmt: skip
    headers = ["arrangement of", "read by", "rows", "MB"]
    return Table("arrangements", "Arrangements that several queries read", headers, rows)


def _coming(found: Iterator[shared.Coming]) -> Table:
    rows = [
        [said(each.query), brief(each.with_arrangements), brief(each.without), brief(each.from_scratch)]
        for each in found
    ]
    headers = ["query", "its arrangements are there", "only the others' are", "alone, all rows at once"]
    notes = ["until its whole answer is there, with all rows loaded before; its plan is compiled within the time"]
    return Table("coming", "How long a query takes to come while the others run", headers, rows, notes)


def _crowded(found: Sequence[shared.Crowded], fuel: int) -> Table:
    rows: list[list[Entry]] = []
    for each in found:
        points = [(percentile(each.alone, point), percentile(each.beside, point)) for point in (50, 99)]
        rows.append([
            said(each.what), said(f"{len(each.beside)}" if each.there else f"more than {len(each.beside)}"),
            *(entry for alone, beside in points for entry in (brief(alone), brief(beside))),
            ratio(points[1][1] / points[1][0]), brief(each.beside[-1]),
        ])  # fmt: skip
    headers = ["what comes", "batches", "p50 alone", "p50 beside", "p99 alone", "p99 beside", "p99 ratio", "max beside"]
    notes = [f"each batch of {shared.SMALL_BATCH} rounds first does {fuel} pieces of at most 4,096 rows of what comes"]
    return Table("crowding", "How long batches take the others while a query comes bit by bit", headers, rows, notes)
