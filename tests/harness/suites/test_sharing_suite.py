"""All queries in one dataflow, on tiny data: right at random rounds, shared where it can be, attached in turn."""

from __future__ import annotations

import pytest

from deltamark.datagen.workload import workload
from deltamark.harness.cli.main import main
from deltamark.harness.measure.cell import Cell
from deltamark.harness.suites.sharing import loading

CELLS = {name: Cell(name, "0.001") for name in ("q05", "q11", "q18", "q21")}

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


def test_all_answers_are_right_at_any_round(chunked):
    work = workload(chunked, "insert")
    assert loading.check(CELLS, chunked, work, 7, 13, [7, 700, work.rounds]) == ""


def test_a_wrong_answer_is_told(chunked, monkeypatch):
    monkeypatch.setattr(loading.Snapshot, "answer", lambda *_: [("wrong",)])
    work = workload(chunked, "insert")
    assert "q05, together with others, after" in loading.check(CELLS, chunked, work, 1, 1000, [work.rounds])


def test_together_less_is_kept_than_alone(chunked):
    work = workload(chunked, "insert")
    plans = loading.plans(CELLS, chunked, work)
    turns = loading.alternate(plans, chunked, work, 1, 1000, 2)
    assert len(turns.timed_together) == len(turns.timed_alone) == 2
    assert turns.together.state_rows < sum(each.state_rows for each in turns.alone)


def test_what_several_read_is_named(chunked):
    work = workload(chunked, "insert")
    found = loading.shared_arrangements(loading.plans(CELLS, chunked, work), chunked, work)
    assert ("lineitem, by orderkey", ["q05", "q21"]) in [(each.name, each.queries) for each in found]


def test_the_suite_measures_every_table(data, tmp_path, capsys):
    words = ["bench", "SUITE=shared", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}", "QUERIES=q03,q05", "RUNS=1"]
    assert main([*words, "PHYSICAL=1000"]) == 0
    out = capsys.readouterr().out
    for title in (
        "All queries in one dataflow",
        "State at the end",
        "Arrangements that several",
        "Arrangements that differ in their filters",
        "Time to attach a query",
        "Batch latencies of the others",
    ):
        assert title in out
    assert "(SF 0.001 q03 q05)" in out
    assert "checked oracle" in out


def test_the_suite_finds_a_wrong_answer(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(loading.Snapshot, "answer", lambda *_: [("wrong",)])
    words = ["bench", "SUITE=shared", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}", "QUERIES=q05", "RUNS=1"]
    assert main([*words, "PHYSICAL=1000"]) == 2
    wrong = capsys.readouterr().err
    assert "WRONG: a wrong answer: q05, together with others" in wrong
    assert "WRONG: a wrong answer: q05, attached while others run" in wrong


def test_an_unknown_query_is_an_error(data, tmp_path, capsys):
    words = ["bench", "SUITE=shared", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}"]
    assert main([*words, "QUERIES=q23"]) == 2
    assert "q23" in capsys.readouterr().err
