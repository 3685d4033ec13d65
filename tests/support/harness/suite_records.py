"""Records of suites: measured by cells that only yield a row, or written by hand."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.measure.client import CellReply
from deltamark.harness.results.record import Origin, Record
from deltamark.harness.suites.plan import Effort, Plan
from deltamark.harness.suites.registry import SUITES
from deltamark.harness.suites.suite import Runner, in_children
from deltamark.harness.tables.lives import OUTCOMES

ORIGIN = Origin("code", "versions", "commit", "session")
FIGURES = {"found": [7], "indexed": [0.5], "batches": [1], "seconds_w1": [2.0, 1.0], "seconds_w2": [1.5],
           "by_hand": [0.5], "proposals": [9], "state_bytes": [100], "state_rows": [10]}  # fmt: skip
MOTIFS = ("triangle", "4-clique", "5-clique")
EFFORT = Effort(1, 600.0)


class FakeCells:
    """A suite whose cells only yield a row. done: the functions that some of them call in their process."""

    def __init__(self, **done):
        self.prepared, self.done, self.interrupted, self.rows = [], done, "", None
        self.cells = [
            Cell(name, "rmat:7", goal="graph", table="static", dataset="rmat:7", part=name, data="data")
            for name in MOTIFS
        ]

    def prepare(self, cell):
        self.prepared.append(cell.query)
        if cell.query == self.interrupted:
            raise KeyboardInterrupt

    def measure(self, cell):
        self.done.get(cell.query, int)()
        yield from [CellReply(figures=FIGURES, verified="by hand")] if self.rows is None else self.rows


def fails(error):
    def fail():
        raise error

    return fail


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


SLOW = dict.fromkeys(MOTIFS, partial(time.sleep, 600))
WRONG = fails(WrongAnswerError("two counts", 5, "ask"))


class Sink:
    """A store in memory, which asks to stop after some number of records."""

    def __init__(self, most=99):
        self.records, self._most = [], most

    def take_stop(self):
        return len(self.records) >= self._most

    def add(self, records):
        self.records += records


class Silent:
    def on_begin(self, cell):
        pass

    def on_records(self, records, remaining, estimate):
        pass


def measure(fakes, sink, known=(), origin=ORIGIN, effort=EFFORT):
    plan = Plan(fakes.cells, known, origin, effort)
    runner = Runner(plan, in_children(fakes, effort.limit), sink, Silent())
    runner.run()
    return [record for records in runner.measured for record in records]


def measured(effort=EFFORT, **done):
    return measure(FakeCells(**done), Sink(), effort=effort)


def record(row, figures=None, *, dataset="", table="", **fields):
    return Record(params={"dataset": dataset, "table": table, "row": row}, figures=figures or {}, **fields)


def suite_tables(records, suite):
    return SUITES[suite].tables(records)


def texts(table):
    return [[entry.text for entry in row] for row in table.rows]


FACTS = {
    "cpu": "CPU", "cores": 2, "usable": 2, "memory_gb": 8, "caches": "", "system": "x", "limits": "none",
    "governor": "powersave", "load": 0.0,
}  # fmt: skip
HEADER = {
    "session": "session",
    "started": "s",
    "machine": FACTS,
    "versions": "v",
    "java": "j",
    "commit": "c",
    "argv": "python -m harness bench SUITE=graph DATA=/my/data --results /my/results --runs 1",
}


def distances(dataset="10,000,000 nodes, 100,000,000 edges, 1 roots"):
    """Return records of the suite of loops."""
    whole = {
        "index": 1.0,
        "scratch": 20.16,
        "fresh": 25.2,
        "attached": 3.075,
        "index_bytes": 1e6,
        "more_bytes": 40,
        "reached": 10,
    }
    figures = {"distances": {**whole, "farthest": 5}, "100": {"batches": 4, "seconds": 0.5}}
    return [
        record(
            row, {name: [each] for name, each in of_row.items()}, suite="loops", dataset=dataset, table="distances",
            cell="x", session="session", finished_at="2026-01-01", verified="numpy",
        )
        for row, of_row in figures.items()
    ]  # fmt: skip


def load(row="1 x 1000", note="", **changes):
    figures = {f"{side}_{what}": [4.0] for side in ("together", "alone") for what in ("rows", "bytes", "peak")}
    figures |= {"together_seconds": [1.0, 2.0], "alone_seconds": [2.0, 8.0], "tuples": [50], **changes}
    return record(
        row, figures, suite="shared", dataset="SF 1", table="loads", cell="x", session="session", verified="oracle",
        note=note,
    )  # fmt: skip


def least_memory():
    """Return a record of the suite of memory."""
    figures = {"least_bytes": 100e6, "opened_bytes": 40e6, "state_bytes": 50e6, "state_rows": 1_000_000}
    figures |= {"seconds": 1.0, "free_seconds": 0.5}
    return record(
        "q05 1x100000", {name: [value] for name, value in figures.items()}, note="killed", suite="memory",
        dataset="SF 1", table="least", cell="x", session="session",
    )  # fmt: skip


def trial(name, rate, p99, note=""):
    """Return a trial of the suite of rates, which is sustained unless it has a note."""
    figures = {
        "rate": rate, "rounds": 1000, "rows": 1000, "batches": 100, "seconds": 1000 / rate, "p50": p99 / 2, "p99": p99,
        "max": 2 * p99, "sustained": int(not note), "limit": 1,
    }  # fmt: skip
    if "burst" in name:
        figures["recovery"] = 3 * p99
    return CellReply(row=name, figures={name: [value] for name, value in figures.items()}, note=note)


def rates(name, *trials):
    """Return records of the suite of rates. trials: a rate, a 99th percentile, and a note if it is not sustained."""
    made = [trial(name, *each) for each in trials or ((1000, 0.001), (4000, 0.002), (4200, 0.5, "latency grows"))]
    return [
        record(
            row.row, row.figures, note=row.note, suite="rate", dataset="SF 1", table="trials",
            cell=f"rate SF 1 trials {name}", session="session", verified="oracle",
        )
        for row in made
    ]  # fmt: skip


def base(name, figures=None, **fields):
    """Return a record of the suite of growth. name: a query, a scale factor and an engine."""
    return record(
        name, figures, suite="growth", dataset="tpch", table="certificates", cell=name, session="session", **fields
    )  # fmt: skip


def growths(query, engine, exponent):
    """Return the records of a query over six bases, with a time for each run."""
    return [
        base(
            f"{query} {scale} {engine}",
            {
                "seconds_orders": [1e-3 * scale**exponent, 9.0],
                "seconds_customer": [9.0, 2e-3 * scale**exponent], "rows": [100], "rows_orders": [60],
                "rows_customer": [40], "batches": [50], "base": [100_000 * scale], "bytes": [2_500_000 * scale],
                "changes": [25],
            },
        )
        for scale in (1, 2, 5, 10, 20, 50)
    ]  # fmt: skip


def kill(name, outcome, note="", **figures):
    """Return a record of the suite of recovery."""
    return record(
        name, {"outcome": [OUTCOMES.index(outcome)], "start_seconds": [0.5, 0.25], **figures}, note=note,
        suite="recovery", dataset="SF 1", table="kills", cell=name, session="session", verified="oracle",
    )  # fmt: skip


def second(name):
    """Return a record of a second query beside a first one."""
    figures = {
        "seconds": [0.25], "peak_bytes": [3e6], "kept_bytes": [1e6], "before": [1e-3, 9.0, 1e-3],
        "after": [2.5e-3, 9.0, 2.5e-3], "alone": [2e-3],
    }  # fmt: skip
    return record(
        name, figures, suite="attach", dataset="SF 1", table="attached", cell=name, session="session", verified="oracle"
    )
