"""The suite of rates: real trials of a moment, and the outcomes of trials with given latencies."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import numpy as np
import pytest
from support.harness.command_line import error_line
from support.harness.suite_records import record, suite_tables, texts

from deltamark.datagen.workloads.registry import workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.cli.main import main
from deltamark.harness.engines.base import RefusedError
from deltamark.harness.suites import rate
from deltamark.harness.suites.rate import OpenRun, TrialRules, Trials, problem_of

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

OF_Q06 = Cell("q06", "0.001", physical=1000, arrivals="steady")
RULES = TrialRules(seconds=1.0, limit=0.5, tries=2)


@pytest.fixture
def trials(chunked):
    """Trials of q06, of which none has run."""
    return Trials(OF_Q06, RULES, chunked, workload(chunked, "insert"), 4000, 7)


DUE = np.arange(100) / 100


def completed(latencies):
    """Return the outcome of a trial of a second."""
    return OpenRun(DUE, DUE + latencies, finished=True, batches=100, rows=100, changes=7)


def test_the_highest_rate_is_found_and_not_measured_again(data, tmp_path, capfd):
    words = ["SUITE=rate", f"RESULTS={tmp_path}"]
    bench = ["bench", *words, "SF=0.001", f"DATA={data}", "QUERY=q06", "SECONDS=0.01", "RUNS=1", "LIMIT=0.2"]
    choices = ["ENGINES=embedded,duckdb", "ARRIVALS=burst:1.5"]
    assert main([*bench, *choices]) == 0
    said = capfd.readouterr()
    assert re.findall(r"^q06.* on (\w+)", said.out, re.MULTILINE) == ["embedded", "duckdb"]
    assert "q06 burst:1.5 on duckdb: 1.00K/s: " in said.err
    assert main([*bench, *choices]) == 0
    assert "2 already done" in capfd.readouterr().out
    assert main(["tables", *words, "TABLE=trials-sf-0-001", "FORMAT=csv"]) == 0
    for line in csv.DictReader(capfd.readouterr().out.splitlines()):
        assert 0 < float(line["p50"]) <= float(line["p99"]) <= float(line["max"])
        assert float(line["recovery"]) > 0
    assert main(["plan", *words, "SF=0.001", f"DATA={data}", "QUERY=q06", "SECONDS=0.02"]) == 0
    assert "; 0 already done" in capfd.readouterr().out, "another duration is another cell"


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (completed(0.01), ""),
        (completed(0.6), "p99 over 500 ms"),
        (completed(0.2), "stream too short"),
        (completed(0.08 * DUE), "latency grows"),
        (completed(0.06 * DUE), ""),
        (replace(completed(0.01), finished=False), "not done 500 ms after its end"),
    ],
)
def test_a_trial_is_sustained_if_its_latency_is_short_and_does_not_grow(run, problem):
    assert problem_of(run, 1.0, 0.5) == problem


def test_a_query_without_changes_after_the_load_is_refused(chunked):
    cell = OF_Q06.but(query="q11", workload="update:30")
    assert [row.note for row in rate.measure(cell, RULES, chunked.directory)] == [
        "refused: nothing changes after the load"
    ]


def test_a_rate_that_fails_is_tried_again(trials, monkeypatch):
    outcomes = [completed(0.01), completed(0.6), completed(0.6), completed(0.6), completed(0.01)]
    monkeypatch.setattr(trials, "_run", lambda _: outcomes[len(trials.rows)])
    assert [trials.passes(rate) for rate in (100.0, 200.0, 150.0)] == [True, False, True]
    assert [row.note for row in trials.rows] == ["", *["p99 over 500 ms"] * 3, ""]
    assert [row.figures["rate"] for row in trials.rows] == [[100], [200], [200], [150], [150]]


def test_a_trial_that_loses_changes_is_wrong(trials, monkeypatch):
    for name in ("MAX_GROWTH", "MAX_SHARE"):
        monkeypatch.setattr(rate, name, 1e9)
    changes = rate._checked_changes(OF_Q06, trials.dataset, trials.work)
    rounds = rate.rounds_of(trials.dataset)(OF_Q06)
    whole = replace(trials, rounds=rounds, changes=changes, rules=replace(RULES, seconds=1e6, limit=1e6))
    assert whole.passes(1e6)
    with pytest.raises(WrongAnswerError, match=rf"has {changes} changes: not {changes + 1}"):
        replace(whole, changes=changes + 1).passes(1e6)


def test_a_refused_query_has_no_rate(chunked, monkeypatch):
    def refuse(*_):
        raise RefusedError("peer refuses q06", "no decimals", "leave the query out")

    monkeypatch.setattr(rate, "_checked_changes", refuse)
    (row,) = rate.measure(OF_Q06, RULES, chunked.directory)
    (table,) = suite_tables([record(row.row, note=row.note, suite="rate", table="trials")], "rate")
    assert texts(table) == [["q06 on embedded", "refused", *["-"] * 8]]


def test_a_cell_without_a_sustained_rate_has_none():
    figures = {name: [1.0] for name in ("rate", "p50", "p99", "max", "seconds", "limit")}
    figures |= {"rows": [1], "batches": [1], "sustained": [0]}
    slow = record("q06 on slow", figures, note="latency grows", suite="rate", table="trials")
    best, every = suite_tables([slow], "rate")
    assert texts(best) == [["q06 on slow", "none", *["-"] * 8]]
    assert texts(every)[0][-1] == "latency grows"


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("ENGINES=spark", "no batches of the harness for an engine that reads the input itself: spark"),
        ("ARRIVALS=burst:0.5", "not a shape of bursts: 'burst:0.5'"),
        ("WORKLOAD=windw:9", "unknown workload: windw:9"),
        ("PHYSICAL=9", "no setting of the suite rate: PHYSICAL"),
    ],
)
def test_wrong_settings_are_refused(capsys, tmp_path, setting, problem):
    assert problem in error_line(capsys, ["plan", "SUITE=rate", setting, f"RESULTS={tmp_path}"])
