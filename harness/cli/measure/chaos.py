"""The command `chaos`: each kind of strikes, and the lines that tell their outcomes."""

from __future__ import annotations

import secrets
import signal
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import cycle, islice, product
from pathlib import Path
from random import Random
from typing import TypeVar

from deltamark.datagen.scratch import scratch
from deltamark.datagen.workloads.registry import NAMES, known_workload
from deltamark.errors import unknown
from deltamark.harness.benchmarks.benchmark import DEFAULT, anywhere, benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.chaos.cluster import FAULTS, Fault, generate, missing, survive_fault
from deltamark.harness.chaos.trial import BenchTrial, CompareTrial, DataTrial, Trial, attempt, measure
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import MAX_SEED, MAX_TIMES, add_data, batch_size, whole, words, worker_counts
from deltamark.harness.cli.parser import Parser
from deltamark.harness.console.console import say
from deltamark.harness.strikes.running import Strike
from deltamark.harness.strikes.spark import VICTIMS, SparkOutcome, StrikePlan, Victim, killing, survive

SPARK, HOSTS = "spark", "hosts"
KINDS = ("data", "bench", "compare", SPARK, HOSTS)
QUERIES: Mapping[str, tuple[str, ...]] = {
    "data": (), "bench": ("q06", "q15"), "compare": ("q06",),
    SPARK: ("q03", "q09", "q18"), HOSTS: ("q03", "q09", "q18"),
}  # fmt: skip
"""The queries of TPC-H that are run without QUERIES. Of another benchmark, as many of the first ones are."""

WORKLOAD = "window:500"
"""The workload of TPC-H on Spark. Of another benchmark, it is its own."""

MAX_ATTEMPTS = 3
"""Attempts for each strike, on average: a run may end before its strike."""

Target = TypeVar("Target")
Violations = Iterator[bool]
"""Whether each strike broke a law."""


def _add_settings(parser: Parser) -> None:
    add_data(parser)
    add = parser.add_argument
    add("--kinds", type=words, default=KINDS, metavar="K,K", help="commands to strike")
    add("--times", type=whole(1, MAX_TIMES), default=20, help="number of strikes of each command")
    add("--seed", type=whole(0, MAX_SEED), help="seed of the moments (default: drawn, and printed)")
    add("--queries", type=words, default=(), metavar="Q,Q", help="queries to run (default: a few)")
    add = parser.add_argument_group("spark and hosts").add_argument
    text = f"{', '.join(NAMES)} (default: {WORKLOAD}; of another benchmark than TPC-H its own)"
    add("--workload", default="", help=text)
    add("--physical", type=batch_size, default=1000, metavar="P", help="logical batches fed at once")
    add("--workers", type=worker_counts, default=(2,), metavar="W,W", help="numbers of shards")
    add("--victims", type=words, default=VICTIMS, metavar="V,V", help="processes to kill (spark)")
    add("--kills", type=whole(1, MAX_TIMES), default=1, help="number of kills in each run (spark)")
    add("--rescale", type=worker_counts, default=(), metavar="W,W", help="numbers of shards after each kill (spark)")
    add("--faults", type=words, default=tuple(FAULTS), metavar="F,F", help=f"faults (hosts): {', '.join(FAULTS)}")


@command("chaos", _add_settings)
def chaos(args: Namespace) -> int:
    """Kill commands at random moments, and check the laws that must hold after the next run.

    data, bench and compare are struck at a moment drawn from the length of an undisturbed run, mostly by SIGKILL,
    sometimes by SIGTERM or SIGINT, in their process group, their first process or one of its children. spark kills the
    driver, an executor or a Python worker of a query after its first commit; with RESCALE, each later start of a driver
    has another number of shards, to which the state is dealt. hosts runs a query on a Spark cluster of several hosts,
    which are namespaces of this machine, and makes a link, a disk, the master or a whole host fail; it needs root and
    iproute2, and is skipped with the reason elsewhere. The seed is printed; SEED= draws the same moments again. Exit
    code 1 means that a law does not hold.

    After data, every file must be byte for byte that of an undisturbed run. After bench, each planned cell must have
    one verified record. After compare, the next run must have a verdict, and no work tree or lock may hinder it. On
    spark and hosts, the change stream must be the golden one. No process or temporary file may be left by any of them,
    and no shared memory by data, bench and compare.

    Every kind takes any BENCHMARK. Without QUERIES, a few queries of TPC-H are run, or the first ones of another
    benchmark.

    Example: make chaos KINDS=data,bench TIMES=5 BENCHMARK=examples/shop
    """
    _check(args)
    seed = secrets.randbelow(1 << 32) if args.seed is None else args.seed
    say(f"SEED={seed}")
    # a shell's background process ignores SIGINT, and so would all processes that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kinds = list(filter(_is_possible, args.kinds))
    violations = {kind: list(_strike(kind, args, Random(f"{seed} {kind}"))) for kind in kinds}  # noqa: S311
    for kind, results in violations.items():
        planned = f" of {args.times}" if len(results) < args.times else ""
        say(f"{kind}: {len(results)}{planned} struck, {sum(results)} broke a law")
    return int(any(sum(results) or len(results) < args.times for results in violations.values()))


def _check(args: Namespace) -> None:
    """Refuse wrong names before any data is made."""
    named = (("kind of chaos", args.kinds, KINDS), ("victim", args.victims, VICTIMS), ("fault", args.faults, FAULTS))
    for kind, names, known in named:
        for name in {*names} - {*known}:
            raise unknown(kind, name, known)
    for name in args.queries:
        benchmark(args.benchmark).query(name)
    if args.workload:
        known_workload(args.workload)


def _is_possible(kind: str) -> bool:
    """Return whether this machine can run the trials of a kind; print the reason if it cannot."""
    reason = missing() if kind == HOSTS else ""
    if reason:
        say(f"{kind}: skipped, because {reason}")
    return not reason


def _strike(kind: str, args: Namespace, chance: Random) -> Violations:
    if kind in (SPARK, HOSTS):
        yield from {SPARK: _strike_spark, HOSTS: _strike_hosts}[kind](args, chance)
        return
    named = _data_settings(args)
    queries = [f"QUERIES={','.join(_queries(kind, args))}"]
    own = [f"WORKLOAD={benchmark(args.benchmark).workload}"]
    master = [f"MASTER={args.master}"] if args.master else []
    makers: dict[str, Callable[[Path], Trial]] = {
        "data": lambda directory: DataTrial([*named, *master], directory),
        "bench": lambda directory: BenchTrial([*named, *queries], args.data, directory),
        "compare": lambda directory: CompareTrial([*named, *queries, *own], args.data, directory),
    }
    if kind != "data":
        ensure(args)
    with scratch() as directory:
        yield from _try(kind, makers[kind](directory), args.times, chance)


def _data_settings(args: Namespace) -> list[str]:
    """Return the settings that name the data, for a command in any working directory."""
    return [f"SF={args.sf}", *([] if args.benchmark == DEFAULT else [f"BENCHMARK={anywhere(args.benchmark)}"])]


def _queries(kind: str, args: Namespace) -> tuple[str, ...]:
    if args.queries or args.benchmark == DEFAULT:
        return args.queries or QUERIES[kind]
    return tuple(benchmark(args.benchmark).queries)[: len(QUERIES[kind])]


def _try(kind: str, trial: Trial, times: int, chance: Random) -> Violations:
    undisturbed = measure(trial)
    problems = f", but {'; '.join(undisturbed.problems)}" if undisturbed.problems else ""
    say(f"{kind}: an undisturbed run takes {undisturbed.seconds:.2f} s{problems}")
    if undisturbed.problems:
        yield True
        return
    done = 0
    for _ in range(MAX_ATTEMPTS * times):
        if done == times:
            return
        outcome = attempt(trial, Strike.drawn(chance), undisturbed.seconds)
        if outcome is not None:
            done += 1
            say(f"{kind} {done}/{times}: {outcome}")
            yield bool(outcome.problems)


def _strike_spark(args: Namespace, chance: Random) -> Violations:
    dataset, undisturbed = ensure(args), dict[tuple[str, int], SparkOutcome]()

    def strike(cell: Cell, victim: Victim) -> SparkOutcome:
        key = cell.query, cell.workers
        if key not in undisturbed:
            undisturbed[key] = survive(cell, dataset, StrikePlan(killing("driver"), 0, 0.0), chance)
            length = undisturbed[key].committed
            say(f"{SPARK}: {cell} takes {length:.2f} s after its first commit; {_end(undisturbed[key])}")
        # a later start deals the state before its first batch, so its moments are those of a whole run
        later = undisturbed[key].seconds if args.rescale else 0.0
        plan = StrikePlan(
            killing(victim), args.kills, undisturbed[key].committed, shards=args.rescale, max_later_delay=later
        )
        return survive(cell, dataset, plan, chance)

    yield from _strike_queries(SPARK, args, args.victims, strike)


def _strike_hosts(args: Namespace, chance: Random) -> Violations:
    dataset = ensure(args)
    problems = generate(_data_settings(args), dataset)
    say(f"{HOSTS}: data generated on a cluster; {_laws(problems)}")
    if problems:
        yield True

    def strike(cell: Cell, fault: Fault) -> SparkOutcome:
        return survive_fault(cell, dataset, fault, chance)

    yield from _strike_queries(HOSTS, args, args.faults, strike)


def _strike_queries(
    kind: str, args: Namespace, targets: Iterable[Target], strike: Callable[[Cell, Target], SparkOutcome]
) -> Violations:
    """Strike the queries in turn. A run that ends before its strike does not count."""
    home = benchmark(args.benchmark)
    sf, work = str(home.source.scale(args.sf)), args.workload or (WORKLOAD if home.name == DEFAULT else home.workload)
    runs = islice(cycle(product(_queries(kind, args), args.workers, targets)), MAX_ATTEMPTS * args.times)
    done = 0
    for name, workers, target in runs:
        if done == args.times:
            return
        cell = Cell(
            name, sf, work, 1, args.physical, workers=workers, engine=SPARK, master=args.master, benchmark=home.name
        )
        outcome = strike(cell, target)
        if outcome.strikes or outcome.problems:
            done += 1
            say(f"{kind} {done}/{args.times}: {cell}: {', '.join(outcome.strikes)}; {_end(outcome)}")
            yield bool(outcome.problems)


def _end(outcome: SparkOutcome) -> str:
    failures = "".join(f"; a driver failed: {failure}" for failure in outcome.failures)
    return f"{outcome.starts} starts, {outcome.seconds:.0f} s{failures}; {_laws(outcome.problems)}"


def _laws(problems: list[str]) -> str:
    return "; ".join(problems) or "all laws hold"
