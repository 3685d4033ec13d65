"""Nexmark on a small stream: right answers while events come and go, whatever the batches and workers."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from support.harness.local_tasks import tasks_in_process

from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.datagen.nexmark.events import KINDS
from deltamark.datagen.nexmark.make import WantedEvents, make_events, read_table
from deltamark.errors import DeltamarkError
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.cli.main import main
from deltamark.harness.suites.nexmark import measuring
from deltamark.harness.suites.nexmark.measuring import check, compared_rounds, load
from deltamark.harness.suites.nexmark.stream import EventQuery, window_of
from deltamark.queries.nexmark import TEXTS

EVENTS, WINDOW = 2200, 700
WORKLOADS = ("insert", f"window:{WINDOW}")

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    own = tmp_path_factory.mktemp("data")
    with tasks_in_process():
        make_events(WantedEvents(own, EVENTS, block_events=600), lambda *_: None)
    return own


@pytest.fixture(scope="module")
def events(data):
    return WantedEvents(data, EVENTS).directory


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", TEXTS)
def test_answers_are_those_of_duckdb_on_one_and_two_workers(events, name, workload):
    alone, together = (check(EventQuery(name, events, workload), workers) for workers in (1, 2))
    assert (alone.compared, alone.changes) == (together.compared, together.changes)
    assert alone.compared > 1
    assert alone.changes > 0


@pytest.mark.parametrize("name", ["q9", "q15"])
def test_batches_and_workers_do_not_change_the_number_of_changes(events, name):
    query = EventQuery(name, events, f"window:{WINDOW}")
    runs = [load(query, *each, 0) for each in ((1, 1), (333, 1), (EVENTS, 1), (1000, 2))]
    assert len({(run.changes, run.tuples) for run in runs}) == 1
    assert [len(run.latencies) for run in runs] == [EVENTS, 7, 1, 3]
    assert runs[0].changes == check(query, 1).changes


def test_answers_are_compared_to_the_end_if_events_leave(events, monkeypatch):
    monkeypatch.setattr(measuring, "MAX_COMPARED_EVENTS", 100)
    for logical in (1, 7, 64):
        assert max(compared_rounds(EventQuery("q4", events, f"window:{WINDOW}", logical))) == EVENTS
        assert 100 <= max(compared_rounds(EventQuery("q4", events, "insert", logical))) < 100 + logical


@pytest.mark.parametrize("logical", [7, 50, 5000])
def test_answers_are_right_if_several_rounds_share_a_time(events, logical):
    for name in ("q9", "q18"):
        assert check(EventQuery(name, events, f"window:{WINDOW}", logical), 1).compared >= 1


def test_a_window_has_the_rows_of_its_last_events(events):
    query = EventQuery("q23", events, f"window:{WINDOW}")
    for rounds in (1, 51, WINDOW, WINDOW + 3, EVENTS):
        live = query.live(rounds)
        assert sum(map(len, live.values())) == min(rounds, WINDOW)
        for name, rows in live.items():
            of_rows = KINDS[name].events_of(np.array(rows))
            assert all(rounds - WINDOW <= event < rounds for event in of_rows)


def test_a_batch_inserts_and_retracts_each_event_once(events):
    inputs = {"bid": ("auction", "price"), "auction": ("id",), "person": ("id",)}
    batch = EventQuery("q23", events, f"window:{WINDOW}").batch(inputs, 0, EVENTS)
    weights = np.concatenate([each.diff for each in batch.values()])
    assert np.sum(weights == 1) == EVENTS
    assert np.sum(weights == -1) == EVENTS - WINDOW
    assert all((np.diff(each.time) >= 0).all() for each in batch.values())


def test_query_9_is_the_row_number_of_its_definition(events):
    """The published query keeps the first row of each auction, by falling price and rising time."""
    with duckdb.connect() as connection:
        for name in ("auction", "bid"):
            connection.register(name, read_table(events, name))
        first = """SELECT id, bidder, price, date_time FROM (
            SELECT id, bidder, price, bid.date_time, row_number() OVER (
                PARTITION BY id ORDER BY price DESC, bid.date_time) AS place
            FROM auction JOIN bid ON id = auction WHERE bid.date_time BETWEEN auction.date_time AND expires)
            WHERE place = 1 ORDER BY id"""
        ours = f"SELECT id, bidder, price, bid_date_time FROM ({TEXTS['q9']}) ORDER BY id"
        assert connection.execute(ours).fetchall() == connection.execute(first).fetchall() != []


def test_query_18_is_the_row_number_of_its_definition(events):
    with duckdb.connect() as connection:
        connection.register("bid", read_table(events, "bid"))
        last = """SELECT auction, bidder, price, channel, url, date_time, extra FROM bid
            QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) = 1 ORDER BY ALL"""
        ours = f"FROM ({TEXTS['q18']}) ORDER BY ALL"
        assert connection.execute(ours).fetchall() == connection.execute(last).fetchall() != []


@pytest.mark.parametrize("words", ["inserts", "window", "window:0", "window:x", f"window:{EVENTS}", "slide:9", ""])
def test_an_unknown_workload_is_an_error(words):
    with pytest.raises(DeltamarkError, match=r"workload|window:N"):
        window_of(words, EVENTS)


def words(data, results, *more):
    return ["bench", "SUITE=nexmark", f"EVENTS={EVENTS}", f"DATA={data}", f"RESULTS={results}", "RUNS=1", *more]


def test_the_suite_measures_batches_and_workers(data, tmp_path, capsys):
    settings = ["QUERIES=q18", f"WORKLOAD=window:{WINDOW}", "PHYSICAL=500,5000", "WORKERS=1,2"]
    assert main(words(data, tmp_path, *settings)) == 0
    out = capsys.readouterr().out
    assert "4 cells measured" in out
    assert f"Nexmark: tuples per second, and latency of batches (2,200 events, window:{WINDOW}, L = 1)" in out
    assert "checked oracle" in out
    assert main(["tables", "SUITE=nexmark", "TABLE=nexmark", f"RESULTS={tmp_path}"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("q18")]
    assert [row[:3] for row in rows] == [["q18", batch, workers] for batch in ("500", "5K") for workers in ("1", "2")]
    assert ["-" in row for row in rows] == [False, True] * 2  # the state is that of one worker


def test_the_suite_finds_a_wrong_answer(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Snapshot, "rows", lambda *_: [("wrong",)])
    assert main(words(data, tmp_path, "QUERIES=q2", "WORKLOAD=insert", "PHYSICAL=1000")) == 2
    assert "WRONG: a wrong answer: q2, insert, workers=1, after round " in capsys.readouterr().err


def test_the_suite_finds_a_wrong_number_of_changes(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Dataflow, "push", lambda *_: 7)
    assert main(words(data, tmp_path, "QUERIES=q2", "WORKLOAD=insert", "PHYSICAL=1000")) == 2
    assert "WRONG: a wrong number of changes: q2, insert: 21, in the checked run " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("QUERIES=q5", "unknown query: q5; did you mean q"),
        ("WORKLOAD=refresh:9", "unknown workload of Nexmark: refresh:9"),
        ("EVENTS=99", "too few or too many events: 99; give EVENTS from 100 to 10000000000"),
    ],
)
def test_a_setting_that_the_suite_does_not_have_is_an_error(data, tmp_path, capsys, setting, problem):
    assert main(words(data, tmp_path, setting)) == 2
    assert problem in capsys.readouterr().err
