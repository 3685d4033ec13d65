"""The grade of an engine: at which moments its answers are right."""

from __future__ import annotations

from random import Random

import pytest
from support.harness.programs import EXAMPLE, EXAMPLE_FILE, STREAM_FILE, faulty

from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.cli.main import main
from deltamark.harness.engines.base import RefusedError
from deltamark.harness.suites import coverage
from deltamark.harness.suites.coverage import graded

APPLY_LATE = (
    "late = getattr(self, 'late', {}); self.late = self.batch; self.batch = late\n        return super().apply(request)"
)
COARSE = {
    "feed": "self.last = request['time']; return super().feed(request)",
    "apply": (
        "reply, made = super().apply(request), self.made[-1]\n"
        "        self.made[-1] = type(made)(0 * made.time + self.last, made.diff, made.columns)\n"
        "        return reply"
    ),
}
STREAMS = [
    ("slide:2000", "q03"), ("late:700", "q16"), ("update:1400", "q18"), ("churn:100", "q08"), ("hot:600", "q21"),
    ("zipf:1", "q13"),
]  # fmt: skip
REFUSE = {"open": "return {'refused': 'too hard'}"}
REFUSE_DELETIONS = {
    "hello": "return {**super().hello(request), 'deletions': False}",
    "open": "assert not request['deletions']; return super().open(request)",
}
IGNORE_DELETIONS = {"apply": (
    "self.batch = {n: b.filter(right['pa'].array([each > 0 for each in b['diff'].to_pylist()])) "
    "for n, b in self.batch.items()}\n        return super().apply(request)"
)}  # fmt: skip


@pytest.fixture(autouse=True)
def _few_workloads(monkeypatch):
    monkeypatch.setattr(coverage, "WORKLOADS", ("window:500",))
    monkeypatch.setattr(coverage, "BATCHES", 4)


def grade(chunked, engine, query="q12"):
    return graded(Cell(query, "0.001", engine=engine), chunked, Random(1))


def test_a_stream_is_right_at_every_time(chunked):
    found = grade(chunked, "embedded")
    assert (found.grade, found.recomputed, found.problem) == ("times", False, "")
    assert found.compared >= coverage.TIMES


def test_an_engine_that_recomputes_is_right_at_the_ends_of_batches(chunked):
    found = grade(chunked, "duckdb")
    assert (found.grade, found.recomputed) == ("batches", True)


@pytest.mark.draws(6)
@pytest.mark.parametrize(("engine", "moments"), [("embedded", "times"), ("duckdb", "batches"), (EXAMPLE, "batches")])
@pytest.mark.parametrize(("work", "name"), STREAMS)
def test_every_engine_is_right_whichever_rows_come_and_go(chunked, monkeypatch, engine, moments, work, name):
    monkeypatch.setattr(coverage, "WORKLOADS", (work,))
    found = grade(chunked, engine, name)
    assert (found.grade, found.problem) == (moments, "")


def test_a_stream_with_the_times_of_batches_is_right_at_their_ends(chunked, tmp_path):
    found = grade(chunked, f"{faulty(tmp_path, STREAM_FILE, **COARSE)} 0.001")
    assert (found.grade, found.recomputed) == ("batches", False)
    assert found.problem.startswith("window:500: ")


def test_an_engine_that_is_a_batch_late_is_wrong(chunked, tmp_path):
    found = grade(chunked, faulty(tmp_path, EXAMPLE_FILE, apply=APPLY_LATE))
    assert found.grade == "wrong"
    assert "DuckDB" in found.problem


def test_a_window_is_as_long_as_that_of_the_golden_digests(chunked, tmp_path, monkeypatch):
    monkeypatch.setattr(coverage, "WINDOW", "window:7")
    monkeypatch.setattr(coverage, "WORKLOADS", ("window:7",))
    found = grade(chunked, faulty(tmp_path, EXAMPLE_FILE, apply=APPLY_LATE))
    assert found.problem.startswith("window:500: ")


def test_a_refused_query_has_no_grade(chunked, tmp_path):
    with pytest.raises(RefusedError, match="too hard"):
        grade(chunked, faulty(tmp_path, EXAMPLE_FILE, **REFUSE))


@pytest.mark.parametrize(("replies", "grade_", "problem"), [
    (REFUSE_DELETIONS, "batches", ""), (IGNORE_DELETIONS, "wrong", "window:500: "),
])  # fmt: skip
def test_an_engine_for_insertions_only_is_graded_by_them(chunked, tmp_path, monkeypatch, replies, grade_, problem):
    monkeypatch.setattr(coverage, "WORKLOADS", ("insert", "window:500"))
    found = grade(chunked, faulty(tmp_path, EXAMPLE_FILE, **replies))
    assert (found.grade, found.only_insertions) == (grade_, True)
    assert found.problem.startswith(problem)


def test_the_matrix_says_which_engines_are_for_insertions_only(chunked, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(coverage, "WORKLOADS", ("insert", "window:500"))
    engines = []
    for name, replies in {"refusing": REFUSE_DELETIONS, "ignoring": IGNORE_DELETIONS}.items():
        (tmp_path / name).mkdir()
        engines.append(f"{name}={faulty(tmp_path / name, EXAMPLE_FILE, **replies)}")
    words = ["SUITE=coverage", "SF=0.001", "QUERIES=q12", f"ENGINES={','.join(engines)}"]
    data = chunked.directory.parent
    assert main(["bench", *words, f"DATA={data}", f"RESULTS={tmp_path / 'results'}"]) == 0
    out = capsys.readouterr().out
    assert "q12      recomputed, declared, insertions only  WRONG after deletions" in out, out
    assert "insertions only: deletions are refused" in out


def test_the_suite_prints_the_matrix_and_the_grades(chunked, tmp_path, capsys):
    refusing = faulty(tmp_path, EXAMPLE_FILE, **REFUSE)
    words = ["SUITE=coverage", "SF=0.001", "QUERIES=q06", f"ENGINES=embedded,duckdb,none={refusing}"]
    data = chunked.directory.parent
    assert main(["bench", *words, f"DATA={data}", f"RESULTS={tmp_path / 'results'}"]) == 0
    out = capsys.readouterr().out
    assert "q06      maintained  recomputed  refused" in " ".join(out.split("\n")) or "maintained" in out
    assert "at every logical time" in out
    assert "at the end of every batch" in out
