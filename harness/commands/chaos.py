"""Kill drivers, executors and Python workers of queries on Spark, at random moments, several times each; the change
stream must be that of an undisturbed run. Exit code 2: one was not.
"""

from __future__ import annotations

import argparse
from random import Random

from harness.cell import Cell
from harness.chaos import VICTIMS, Danger, survive
from harness.commands.data import ensure
from harness.options import MOST_SEED, MOST_TIMES, add_data, batch_size, seconds, whole, worker_counts
from queries.catalogue import query

QUERIES = ("q03", "q09", "q18")


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add = parser.add_argument
    add("queries", nargs="*", default=QUERIES, help=f"which (default {', '.join(QUERIES)})")
    add("--workload", default="window:500", help="insert, window:N or refresh:K (default window:500)")
    add("--physical", type=batch_size, default=1000, metavar="P", help="logical batches at once (default 1000)")
    add("--workers", type=worker_counts, default=(2,), metavar="W,W", help="numbers of shards (default 2)")
    add("--victims", default=",".join(VICTIMS), help=f"which, between commas (default {','.join(VICTIMS)})")
    add("--times", type=whole(1, MOST_TIMES), default=3, help="runs of each query and victim (default 3)")
    add("--kills", type=whole(1, MOST_TIMES), default=3, help="in each run (default 3)")
    add("--pause", type=seconds, default=10.0, metavar="S", help="seconds between kills, on average (default 10)")
    add("--seed", type=whole(0, MOST_SEED), default=0, help="of the moments (default 0)")


def run(chosen: argparse.Namespace) -> int:
    dataset, chance, wrong = ensure(chosen), Random(chosen.seed), 0  # noqa: S311 (no secret)
    for name in chosen.queries:
        query(name)
    todo = [(v, w, q) for v in chosen.victims.split(",") for w in chosen.workers for q in chosen.queries]
    for victim, workers, name in todo:
        cell = Cell(
            name, str(chosen.sf), chosen.workload, 1, chosen.physical, workers=workers, engine="spark",
            master=chosen.master,
        )  # fmt: skip
        for _ in range(chosen.times):
            tale = survive(cell, dataset, Danger(victim, chosen.kills, chosen.pause), chance)
            wrong += bool(tale.wrong)
            told = f"{len(tale.kills)} kills of {victim}, {tale.starts} starts, {tale.seconds:.0f} s"
            print(f"{cell}: {tale.wrong or 'the same stream'} ({told})", flush=True)
    print(f"{len(todo) * chosen.times} runs, {wrong} wrong")
    return 2 if wrong else 0
