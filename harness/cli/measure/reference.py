"""The command that measures all published numbers on one commit."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.benchmarks.benchmark import DEFAULT, benchmark
from deltamark.harness.cli.commands import call, command
from deltamark.harness.cli.options import words
from deltamark.harness.cli.parser import Parser
from deltamark.harness.cli.sweep_options import add_bench, suite_of
from deltamark.harness.console.console import say, say_folded, warn
from deltamark.harness.console.table import brief, span
from deltamark.harness.engines.registry import ALL, BUILT_IN, every_engine
from deltamark.harness.measure.stats import percentile
from deltamark.harness.results import store
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.reporter import plan_line
from deltamark.harness.system import machine
from deltamark.harness.system.clock import control_seconds

DIRECTORY = Path("results") / "commits"
"""The directory of the records, which has one for each commit."""

INTERRUPT = 130
"""The exit code of a run that Ctrl-C has ended."""

FINE = "LOGICAL=1 PHYSICAL=100000"

OF_TEXTS = "embedded,datafusion,polars,hyper,pgwire,chdb,pg-triggers,pglite,turso,chdb-views,spark-native,flink"
"""The engines that take the text of a query and NULL in its inputs."""

STEPS: Mapping[str, Sequence[str]] = {
    "grid": ["SF=1"],
    "engines": [
        "SF=1 ENGINES=embedded,differential WORKERS=1,2 LOGICAL=1 PHYSICAL=100000,1000,1 WORKLOAD=insert",
        "SF=1 ENGINES=embedded,differential WORKERS=1,2 LOGICAL=100000 PHYSICAL=1 WORKLOAD=insert",
    ],
    "deletions": [f"SF=1 ENGINES=embedded {FINE} WORKLOAD=window:100000"],
    "growth": [f"SF=10 ENGINES=embedded {FINE} WORKLOAD=insert"],
    "shared": ["SUITE=shared SF=1 PHYSICAL=1000,100000"],
    "graph": ["SUITE=graph SCALE=18"],
    "sql": [
        "SF=1 VARIANTS=first,sql ENGINES=embedded LOGICAL=1 PHYSICAL=1,1000,100000 WORKLOAD=insert",
        "SF=1 VARIANTS=first,sql ENGINES=embedded LOGICAL=100000 PHYSICAL=1 WORKLOAD=insert",
    ],
    "certificates": ["SUITE=growth"],
    "workloads": [
        *(
            f"SF=1 ENGINES={engine} RUNS={runs} LOGICAL=1 PHYSICAL={physical} WORKLOAD={names}"
            for engine, runs in (("embedded", 3), ("differential", 1), ("duckdb", 1))
            for physical, names in (
                (100_000, "insert,zipf:1,slide:1500000,late:100000,window:100000,refresh:10"),
                (10, "update:100,churn:100,hot:100"),
            )
        )
    ],
    "windows": ["SUITE=windows"],
    "rate": ["SUITE=rate SF=1"],
    "loops": ["SUITE=loops NODES=10M EDGES=100M"],
    "benchmarks": [
        f"BENCHMARK=tpcds SF=1 {FINE} WORKLOAD=insert",
        f"BENCHMARK=ssb SF=1 {FINE} WORKLOAD=insert",
        f"BENCHMARK=nexmark SF=1 {FINE}",
    ],
    "recovery": ["SUITE=recovery SF=0.01 QUERIES=q03 ENGINES=spark,flink RUNS=7 TIMEOUT=1800"],
    "attach": ["SUITE=attach SF=0.1 QUERIES=q03,q05,q10"],
    "coverage": ["SUITE=coverage SF=0.1 ENGINES=all TIMEOUT=300"],
    "spark": [
        "SF=1 ENGINES=spark RUNS=1",
        "SF=1 ENGINES=spark-sql RUNS=1 SAMPLE=6",
        "SF=1 ENGINES=embedded LOGICAL=100000,1000000 PHYSICAL=1 WORKERS=1",
    ],
    "texts": [f"SUITE=coverage BENCHMARK=tpcds SF=0.01 ENGINES={OF_TEXTS} TIMEOUT=60"],
}
"""The settings of `bench`, by step. The first steps make the tables of the README."""

BUSY_CORES = 0.15
"""The cores that other programs may use; not measured."""

CONTROLS, WATCHED_S = 40, 2.0
"""How often fixed work is timed, and how long the cores are watched."""

STEADY = 1.15
"""The largest ratio of the upper to the lower quartile of the control work; not measured."""


def options(parser: Parser) -> None:
    text = f"steps to run, in the given order (default: all; {', '.join(STEPS)})"
    parser.add_argument("--steps", type=words, default=list(STEPS), metavar="S,S", help=text)
    text = "yes: measure although other programs share the cores (default: no)"
    parser.add_argument("--noisy", choices=("yes", "no"), default="no", help=text)


@command("reference", options)
def run(args: Namespace) -> int:
    """Measure all published numbers on one commit, the most important ones first.

    The records lie in results/commits/COMMIT. Ctrl-C or a file STOP there ends the run, and the same command resumes
    it. Each step begins only on a quiet machine. Engines and benchmarks that are not set up are left out. `make readme`
    publishes the records.

    Exit code 2: an answer was wrong, or a cell failed.
    """
    for name in args.steps:
        if name not in STEPS:
            raise unknown("step", name, STEPS)
    commit = machine.commit()
    if commit.endswith("+"):
        raise DeltamarkError("no reference of a work tree with changes", commit, "commit them")
    results = DIRECTORY / commit
    steps = {name: list(_lines(name, results)) for name in args.steps}
    for name, lines in steps.items():
        for line in lines:
            plan, headline = _plan(line)
            say_folded(f"{name}: {plan_line(plan, headline)}")
    worst, started = 0, time.monotonic()
    for number, (name, lines) in enumerate(steps.items(), 1):
        if args.noisy == "no":
            check_quiet()
        say(f"\nstep {number} of {len(steps)}: {name}, after {span(time.monotonic() - started)}")
        for line in lines:
            code = call(["bench", *line])
            was_stopped = code == 0 and bool(_plan(line)[0].remaining)
            if code == INTERRUPT or was_stopped:
                return code
            worst = max(worst, code)
    say(f"publish  make readme RESULTS={results} MACHINE={machine.name(machine.facts())}")
    return worst


def _lines(step: str, results: Path) -> Iterator[list[str]]:
    """Return the settings of a step's calls of `bench`, without engines and benchmarks that are not set up."""
    ready = {*BUILT_IN, *every_engine()}
    for line in STEPS[step]:
        settings = dict(word.split("=") for word in line.split())
        texts = benchmark(settings.get("BENCHMARK", DEFAULT)).texts
        if texts and not texts.packages.are_ready:
            warn(f"{step}: left out, because it is not set up: {texts.packages.name}; {texts.packages.command}")
            continue
        engines = settings.get("ENGINES", ALL).split(",")
        kept = [each for each in engines if each in ready or each == ALL]
        if left_out := [each for each in engines if each not in kept]:
            warn(f"{step}: left out, because it is not set up: {', '.join(left_out)}")
        if kept:
            of_engines = {"ENGINES": ",".join(kept)} if "ENGINES" in settings else {}
            yield [f"{name}={value}" for name, value in {**settings, **of_engines, "RESULTS": str(results)}.items()]


def _plan(line: Sequence[str]) -> tuple[Plan, str]:
    """Return the plan of a call of `bench`, and its headline."""
    parser = Parser()
    add_bench(parser)
    args = parser.parse_settings(line)
    suite = suite_of(args)
    plan = suite.plan(store.read(args.results / machine.name(machine.facts())).records)
    return plan, suite.headline(plan)


def check_quiet() -> None:
    """Raise an error if other programs use the cores, or if the time of fixed work varies."""
    remedy = "stop other programs, or give NOISY=yes to measure all the same"
    busy = psutil.cpu_percent(WATCHED_S) / 100 * (psutil.cpu_count() or 1)
    if busy > BUSY_CORES:
        raise DeltamarkError("the machine is busy", f"other programs use {busy:.2f} cores", remedy)
    times = sorted(control_seconds() for _ in range(CONTROLS))
    low, high = percentile(times, 25), percentile(times, 75)
    if high > STEADY * low:
        raise DeltamarkError(
            "the machine is not steady", f"fixed work takes {brief(low).text} to {brief(high).text}", remedy
        )
