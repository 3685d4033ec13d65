"""The suite of memory, with trials that need a given size of memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.harness.suite_records import record, suite_tables, texts

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.cli.main import main
from deltamark.harness.measure.client import CellReply
from deltamark.harness.suites import memory
from deltamark.harness.suites.memory import GroupPlace, Outcome, Trials

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

NEEDED, PEAK = 100_000_000, 130_000_000
FIGURES = {"seconds": [0.5], "opened_bytes": [40_000_000], "state_rows": [1_000_000], "state_bytes": [50_000_000]}
PASSED = CellReply(digest="1 aa", figures=FIGURES)


@pytest.fixture
def trials(monkeypatch):
    """Return a function that sets the replies of trials: without a limit, and under one with enough memory."""
    place = GroupPlace(Path("/nowhere"), 1)
    monkeypatch.setattr(memory, "find_place", lambda: place)

    def set_replies(*, free=PASSED, limited=PASSED):
        def run(_self, _cell, answers, *, seconds, limit=None):
            assert seconds > 0
            assert bool(answers) == (limit is None), "answers are compared without a limit, digests under limits"
            if limit is not None and limit < NEEDED:
                return Outcome(CellReply(status="failed", problem="ended"), 1, limit)
            return Outcome(free if limit is None else limited, 0, PEAK)

        monkeypatch.setattr(Trials, "run", run)

    set_replies()
    return set_replies


@pytest.fixture
def measure_q06(chunked):
    cell = Cell("q06", "0.001", goal="memory", part="q06")
    return lambda: [*memory.measure(cell, chunked.directory, 60.0)]


@pytest.mark.usefixtures("trials")
def test_the_least_memory_is_found_and_not_measured_again(data, tmp_path, capfd):
    words = ["bench", "SUITE=memory", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}", "QUERIES=q06"]
    assert main([*words, "ENGINES=embedded"]) == 0
    said = capfd.readouterr()
    (row,) = re.findall(r"^q06 1x100000 +([\d.]+) +40.0 +50.0 +50 +1.00x +killed$", said.out, re.MULTILINE)
    assert NEEDED <= 1e6 * float(row) <= 1.05 * NEEDED
    assert "q06 1x100000: no limit: passes in 500 ms" in said.err
    assert "q06 1x100000: 65.0 MB: killed" in said.err
    assert main([*words, "ENGINES=embedded"]) == 0
    assert "1 already done" in capfd.readouterr().out


def test_batchings_workers_and_engines_can_be_chosen(tmp_path, capsys):
    words = ["plan", "SUITE=memory", f"RESULTS={tmp_path}", f"DATA={tmp_path}", "QUERIES=q06,q01"]
    assert main([*words, "WORKERS=1,2", "LOGICAL=10", "PHYSICAL=1000"]) == 0
    out = capsys.readouterr().out
    for cell in ("q06 10x1000", "q06 10x1000 -w2", "q01 10x1000 duckdb", "q01 10x1000 -w2 duckdb"):
        assert f"memory SF 0.01 least {cell} " in out
    assert "8 cells" in out


@pytest.mark.parametrize(
    ("limited", "problem"),
    [
        (CellReply(status="wrong", problem="a row is missing"), "a row is missing"),
        (CellReply(digest="1 bb"), "the digest 1 bb, not 1 aa"),
    ],
)
def test_a_wrong_answer_under_a_limit_is_wrong(trials, measure_q06, limited, problem):
    trials(limited=limited)
    with pytest.raises(WrongAnswerError, match=rf"a wrong answer: q06, .*under a limit of 1\d+ bytes: {problem}"):
        measure_q06()


def test_a_query_that_fails_without_a_limit_is_a_failure(trials, measure_q06):
    trials(free=CellReply(status="failed", problem="no such function"))
    with pytest.raises(DeltamarkError, match="failed without a limit: no such function"):
        measure_q06()


def test_a_refused_query_has_no_number(trials, measure_q06):
    trials(free=CellReply(status="refused", problem="no subqueries"))
    (row,) = measure_q06()
    (table,) = suite_tables([record("q06", note=row.note, suite="memory", table="least")], "memory")
    assert texts(table) == [["q06", "refused", "-", "-", "-", "-", "refused: no subqueries"]]


def test_without_limits_no_data_is_made(monkeypatch, tmp_path, capsys):
    def find_none():
        raise DeltamarkError("no control group with a limit of memory", "v1: Permission denied", "be root")

    monkeypatch.setattr(memory, "find_place", find_none)
    assert main(["bench", "SUITE=memory", f"RESULTS={tmp_path / 'results'}", f"DATA={tmp_path / 'data'}"]) == 2
    assert "no control group with a limit of memory: v1: Permission denied; be root" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
