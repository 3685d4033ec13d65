"""All queries in one dataflow, on tiny data: right at random rounds, shared where it can be, attached in turn."""

from __future__ import annotations

from datagen.workload import workload
from harness import shared
from harness.cell import Cell
from harness.cli import main

CELLS = {name: Cell(name, "0.001") for name in ("q05", "q11", "q18", "q21")}


def test_all_answers_are_right_at_any_round(chunked):
    work = workload(chunked, "insert")
    assert shared.check(CELLS, chunked, work, 7, 13, [7, 700, work.rounds]) == ""


def test_a_wrong_answer_is_told(chunked, monkeypatch):
    monkeypatch.setattr(shared.Snapshot, "answer", lambda *_: [("wrong",)])
    work = workload(chunked, "insert")
    assert "q05, together with others, after" in shared.check(CELLS, chunked, work, 1, 1000, [work.rounds])


def test_together_less_is_kept_than_alone(chunked):
    work = workload(chunked, "insert")
    plans = shared.plans(CELLS, chunked, work)
    turns = shared.by_turns(plans, chunked, work, 1, 1000, 2)
    assert len(turns.timed_together) == len(turns.timed_alone) == 2
    assert turns.together.state_rows < sum(each.state_rows for each in turns.alone)


def test_what_several_read_is_named(chunked):
    work = workload(chunked, "insert")
    found = shared.sharing(shared.plans(CELLS, chunked, work), chunked, work)
    assert ("lineitem, by orderkey", ["q05", "q21"]) in [(each.what, each.queries) for each in found]


def test_the_command_prints_its_tables(data, capsys):
    words = ["bench-shared", "--sf", "0.001", "--data", str(data), "--queries", "q03,q05", "--physical", "1000"]
    assert main([*words, "--runs", "1"]) == 0
    out = capsys.readouterr().out
    for title in ("All queries in one dataflow", "What is kept", "Arrangements that several", "How long a query takes"):
        assert title in out


def test_an_unknown_query_is_an_error(data, capsys):
    assert main(["bench-shared", "--sf", "0.001", "--data", str(data), "--queries", "q23"]) == 2
    assert "q23" in capsys.readouterr().err
