"""`make soak`: the cycles of a window repeat its changes in later times, and its summary compares quarters of a run."""

from __future__ import annotations

import re
from contextlib import closing
from random import Random

import duckdb
import numpy as np
import pytest

from deltamark.datagen.feed import TIMES_PER_ROUND
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.arrivals import Window
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import Snapshot, difference
from deltamark.harness.check.oracle import sql_values
from deltamark.harness.cli.main import main
from deltamark.harness.cli.measure.watch import FIGURES, LINES, SoakLine, summary
from deltamark.harness.engines.embedded import EmbeddedEngine
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.engines.registry import open_stream

SIZE, CYCLES = 400, 3
MOVING = [name for name in benchmark().queries if {"orders", "lineitem"} & {*benchmark().reads(name)}]


def changes(cell, dataset, work, rounds=None):
    with closing(open_stream(cell, dataset, work)) as engine:
        return engine.schema, [*engine.changes(rounds or work.rounds)]


def rows(batches, first, last):
    """Return the changes of the rounds first + 1 to last, with times since the first."""
    found = []
    for each in batches:
        low, high = np.searchsorted(each.time, [TIMES_PER_ROUND * (first + 1), TIMES_PER_ROUND * (last + 1)])
        columns = [each.columns[name][low:high].tolist() for name in sorted(each.columns)]
        times = (each.time[low:high] - TIMES_PER_ROUND * first).tolist()
        found += zip(times, each.diff[low:high].tolist(), *columns, strict=True)
    return sorted(found, key=repr)


@pytest.mark.draws(6)
@pytest.mark.parametrize("name", MOVING)
def test_every_cycle_has_the_same_changes_in_later_times(chunked, name):
    cell = Cell(name, "0.001", physical=700)
    orders = chunked.rows("orders")
    _, once = changes(cell, chunked, workload(chunked, f"window:{SIZE}"))
    _, found = changes(cell, chunked, Window(chunked, SIZE, CYCLES))
    assert rows(found, -1, orders) == rows(once, -1, orders)
    assert rows(found, orders + SIZE, 2 * orders) == rows(once, SIZE, orders)
    assert rows(found, 2 * orders, 3 * orders) == rows(found, orders, 2 * orders)


def live_answer(cell, dataset, rounds):
    """Let DuckDB answer a query over the orders of the last rounds, and their lines."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("stored_orders", dataset.table("orders").select(["orderkey"]))
        connection.execute("CREATE TABLE keys AS SELECT orderkey FROM stored_orders")
        live = f"SELECT orderkey FROM keys WHERE ({rounds - 1} - rowid) % {dataset.rows('orders')} < {SIZE}"
        for name, columns in sql_inputs(cell).items():
            table = RELATIONS[name]
            connection.register("stored", dataset.table(table.name))
            where = f" WHERE orderkey IN ({live})" if name in ("orders", "lineitem") else ""
            connection.execute(f"CREATE TABLE {name} AS SELECT {sql_values(table, columns)} FROM stored{where}")
        return connection.execute(cell.sql).fetchall()


@pytest.mark.draws(6)
@pytest.mark.parametrize("name", MOVING)
def test_the_answer_where_two_cycles_meet_is_that_of_the_live_rows(chunked, name):
    cell, orders = Cell(name, "0.001", physical=700), chunked.rows("orders")
    rounds = orders + Random(name).randrange(1, SIZE)
    schema, found = changes(cell, chunked, Window(chunked, SIZE, CYCLES), rounds + 1)
    snapshot = Snapshot(schema)
    for each in found:
        snapshot.add(each)
    assert not difference(snapshot.answer(benchmark().query(name).order_by), live_answer(cell, chunked, rounds))


def soak(data, *words):
    return main(["soak", "q18", "SF=0.001", f"DATA={data}", f"WORKLOAD=window:{SIZE}", "LOGICAL=1", *words])


def updates(out):
    return [int(number.replace(",", "")) for number in re.findall(r"^ *([\d,]+) +[\d,]+ +[\d,.]+ ", out, re.MULTILINE)]


@pytest.mark.parametrize("words", [[], ["PHYSICAL=7", "WORKERS=2"]])
def test_soak_goes_over_the_orders_until_it_has_the_updates(data, chunked, capsys, words):
    assert soak(data, "UPDATES=40K", *words) == 0
    out = capsys.readouterr().out
    lines = updates(out)
    assert 40_000 <= lines[-1] <= 44_000
    assert LINES - 4 <= len(lines) <= LINES + 4
    assert re.search(r"^[\d,]+ updates: memory (flat|NOT FLAT), p99 (flat|NOT FLAT)$", out, re.MULTILINE)
    assert lines[-1] > 2 * (chunked.rows("orders") + chunked.rows("lineitem"))


def test_soak_goes_over_the_orders_once_by_default(data, chunked, capsys):
    assert soak(data) == 0
    moved = sum(
        (len(piece.rows))
        for name in ("customer", "orders", "lineitem")
        for piece in workload(chunked, f"window:{SIZE}").pieces(name, 0, 1501)
    )
    assert updates(capsys.readouterr().out)[-1] == moved


def test_an_interrupted_soak_summarizes_the_finished_lines(data, capsys, monkeypatch):
    calls, apply = [], EmbeddedEngine.apply_several

    def interrupted(self):
        calls.append(None)
        if len(calls) > 20:
            raise KeyboardInterrupt
        return apply(self)

    monkeypatch.setattr(EmbeddedEngine, "apply_several", interrupted)
    assert soak(data, "UPDATES=100K") == 130
    out = capsys.readouterr().out
    lines = updates(out)
    assert f"\n{lines[-1]:,} updates: memory" in out
    assert lines[-1] < 100_000


def line(number, **figures):
    return SoakLine(number * 1000, number > 2, {**dict.fromkeys(FIGURES, 1.0), **figures})


def test_the_summary_compares_the_quarters_with_a_full_window():
    lines = [line(number, **{"memory MB": 1e6 * (100 if number < 8 else 120), "p99": 1e-3}) for number in range(1, 15)]
    lines[0] = line(1, **{"memory MB": 0.0, "p99": 5.0})
    text = summary(lines)
    assert text.startswith("14,000 updates: memory NOT FLAT, p99 flat\n")
    assert re.search(r"^memory MB +100.0 +120.0 +1.20x$", text, re.MULTILINE)
    assert re.search(r"^p99 +1 ms +1 ms +1.00x$", text, re.MULTILINE)


@pytest.mark.parametrize(("lines", "full"), [(0, 0), (2, 0), (5, 3)])
def test_a_short_soak_is_not_judged(lines, full):
    text = summary([line(number) for number in range(1, lines + 1)])
    assert text.endswith(f"too few lines with a full window to compare ({full}, not 4)\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["q18", "WORKLOAD=insert"], "soak needs a sliding window: insert; write --workload window:10000"),
        (["q11"], "no input of the query moves in a window: q11; name a query over orders or lineitem"),
    ],
)
def test_a_soak_without_movement_is_refused_before_data_is_made(capsys, tmp_path, words, message):
    assert main(["soak", *words, f"DATA={tmp_path / 'data'}"]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert not (tmp_path / "data").exists()
