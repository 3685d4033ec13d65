"""All queries in one dataflow, on tiny data: right at random rounds, with shared arrangements, attached one by one."""

from __future__ import annotations

import re

import pytest

from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.cli.main import main
from deltamark.harness.suites import sharing
from deltamark.harness.suites.sharing import SharedQueries, arrangements, check, loads

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture
def shared(chunked):
    return SharedQueries(chunked.directory, {name: Cell(name, "0.001") for name in ("q05", "q11", "q18", "q21")})


def test_all_answers_are_right_at_any_round(shared):
    check(shared, 7, 13, [7, 700, shared.work.rounds])


def test_a_wrong_answer_is_reported(shared, monkeypatch):
    monkeypatch.setattr(sharing.Snapshot, "answer", lambda *_: [("wrong",)])
    with pytest.raises(WrongAnswerError, match="q05, together with others, after"):
        check(shared, 1, 1000, [shared.work.rounds])


def test_shared_queries_keep_fewer_rows_than_separate_ones(shared):
    (row,) = loads(shared, 1, 1000, 2)
    assert len(row.figures["together_seconds"]) == len(row.figures["alone_seconds"]) == 2
    assert min(row.figures["together_rows"]) < min(row.figures["alone_rows"])


def test_shared_arrangements_are_named_with_their_readers(shared):
    assert ("lineitem, by orderkey", "q05 q21") in [(row.row, row.note) for row in arrangements(shared)]


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
    assert re.search(r"alone, all rows at once +MB kept +MB at peak\n", out)


def test_the_suite_finds_a_wrong_answer(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sharing.Snapshot, "answer", lambda *_: [("wrong",)])
    words = ["bench", "SUITE=shared", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}", "QUERIES=q05", "RUNS=1"]
    assert main([*words, "PHYSICAL=1000"]) == 2
    wrong = capsys.readouterr().err
    assert "WRONG: a wrong answer: q05, together with others" in wrong
    assert "WRONG: a wrong answer: q05, attached while others run" in wrong


def test_an_unknown_query_is_an_error(data, tmp_path, capsys):
    words = ["bench", "SUITE=shared", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}"]
    assert main([*words, "QUERIES=q23"]) == 2
    assert "q23" in capsys.readouterr().err
