"""Kill commands at random moments, run them again to their end, and check that nothing was lost, doubled or left.

data, bench and compare are struck at a moment drawn from the length of an unharmed run: by SIGKILL, and now and then by
SIGTERM or SIGINT, in their process group, their first process or one of its children. spark kills the driver, an
executor or a Python worker of a query after its first commit. The seed is printed, and SEED= draws the same moments
again. Exit code 1: a law does not hold.

data: every file is byte for byte that of an unharmed run. bench: each planned cell has one verified record. compare:
the next run gives a verdict, and no work tree or lock hinders it. spark: the change stream is the golden one. All: no
process, temporary file or shared memory is left.
"""

from __future__ import annotations

import argparse
import secrets
import signal
from collections.abc import Callable, Iterator
from itertools import cycle, islice, product
from pathlib import Path
from random import Random

from deltamark.datagen.scratch import scratch
from deltamark.datagen.workload import known_workload
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.chaos.bench import BenchTrial
from deltamark.harness.chaos.compare import CompareTrial
from deltamark.harness.chaos.data import DataTrial
from deltamark.harness.chaos.spark import VICTIMS, Danger, Tale, survive
from deltamark.harness.chaos.strike import Strike
from deltamark.harness.chaos.trial import Trial, attempt, measure
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import MAX_SEED, MAX_TIMES, add_data, batch_size, whole, words, worker_counts
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query

SPARK = "spark"
KINDS = ("data", "bench", "compare", SPARK)
QUERIES = ("q03", "q09", "q18")

MOST_MISSES = 3
"""Strikes a time, at most: a run may end before it is struck."""

Problems = Iterator[bool]
"""Of each kill, whether a law does not hold after it."""


def options(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add = parser.add_argument
    add("--kinds", type=words, default=KINDS, metavar="K,K", help=f"what is struck (default {','.join(KINDS)})")
    add("--times", type=whole(1, MAX_TIMES), default=20, help="how many times each (default 20)")
    add("--seed", type=whole(0, MAX_SEED), help="of the moments (default: drawn, and printed)")
    add = parser.add_argument_group("of spark").add_argument
    add("--queries", type=words, default=QUERIES, metavar="Q,Q", help=f"which (default {','.join(QUERIES)})")
    add("--workload", default="window:500", help="insert, window:N or refresh:K (default window:500)")
    add("--physical", type=batch_size, default=1000, metavar="P", help="logical batches at once (default 1000)")
    add("--workers", type=worker_counts, default=(2,), metavar="W,W", help="numbers of shards (default 2)")
    add("--victims", type=words, default=VICTIMS, metavar="V,V", help=f"which (default {','.join(VICTIMS)})")
    add("--kills", type=whole(1, MAX_TIMES), default=1, help="kills in each run (default 1)")


def run(args: argparse.Namespace) -> int:
    _check(args)
    seed = secrets.randbelow(1 << 32) if args.seed is None else args.seed
    print(f"SEED={seed}", flush=True)
    # what a shell runs in the background ignores Ctrl-C, and so would all that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outcomes = {kind: list(_struck(kind, args, Random(f"{seed} {kind}"))) for kind in args.kinds}  # noqa: S311
    for kind, found in outcomes.items():
        short = f" of {args.times}" if len(found) < args.times else ""
        print(f"{kind}: {len(found)}{short} struck, {sum(found)} broke a law")
    return int(any(sum(found) or len(found) < args.times for found in outcomes.values()))


def _check(args: argparse.Namespace) -> None:
    """Refuse wrong names, before any data is made."""
    for kind, names, known in (("kind of chaos", args.kinds, KINDS), ("victim", args.victims, VICTIMS)):
        for name in {*names} - {*known}:
            raise unknown(kind, name, known)
    for name in args.queries:
        query(name)
    known_workload(args.workload)
    if not (args.kinds and args.victims and args.queries):
        raise DeltamarkError("nothing to strike", "an empty list", "leave KINDS, VICTIMS and QUERIES out")


def _struck(kind: str, args: argparse.Namespace, chance: Random) -> Problems:
    if kind == SPARK:
        yield from _on_spark(args, chance)
        return
    makers: dict[str, Callable[[Path], Trial]] = {
        "data": lambda apart: DataTrial(str(args.sf), args.master, apart),
        "bench": lambda apart: BenchTrial(str(args.sf), args.data, apart),
        "compare": lambda apart: CompareTrial(str(args.sf), args.data, apart),
    }
    if kind != "data":
        ensure(args)
    with scratch() as apart:
        yield from _tried(kind, makers[kind](apart), args.times, chance)


def _tried(kind: str, trial: Trial, times: int, chance: Random) -> Problems:
    unharmed = measure(trial)
    print(f"{kind}: an unharmed run takes {unharmed.seconds:.2f} s{_listed(unharmed.problems)}", flush=True)
    if unharmed.problems:
        yield True
        return
    done = 0
    for _ in range(MOST_MISSES * times):
        if done == times:
            return
        tale = attempt(trial, Strike.drawn(chance), unharmed.seconds)
        if tale is not None:
            done += 1
            print(f"{kind} {done}/{times}: {tale}", flush=True)
            yield bool(tale.problems)


def _listed(problems: list[str]) -> str:
    return f", but {'; '.join(problems)}" if problems else ""


def _on_spark(args: argparse.Namespace, chance: Random) -> Problems:
    dataset, lengths = ensure(args), dict[tuple[str, int], float]()
    runs = islice(cycle(product(args.queries, args.workers, args.victims)), MOST_MISSES * args.times)
    done = 0
    for name, workers, victim in runs:
        if done == args.times:
            return
        cell = Cell(
            name, str(args.sf), args.workload, 1, args.physical, workers=workers, engine=SPARK,
            master=args.master,
        )  # fmt: skip
        if (name, workers) not in lengths:
            unharmed = survive(cell, dataset, Danger("driver", 0, 0.0), chance)
            print(
                f"{SPARK}: {cell} takes {unharmed.committed:.2f} s after its first commit{_told(unharmed)}", flush=True
            )
            lengths[name, workers] = unharmed.committed
        tale = survive(cell, dataset, Danger(victim, args.kills, lengths[name, workers]), chance)
        if tale.kills or tale.wrong:
            done += 1
            told = f"{', '.join(tale.kills)}; {tale.starts} starts, {tale.seconds:.0f} s"
            print(f"{SPARK} {done}/{args.times}: {cell}: {told}{_told(tale) or '; all laws hold'}", flush=True)
            yield bool(tale.wrong)


def _told(tale: Tale) -> str:
    return f"; {tale.wrong.removesuffix('; ')}" if tale.wrong else ""
