"""The suite of attachments: a second query beside the first one has the answers of DuckDB."""

from __future__ import annotations

import runpy

import pytest
from support.harness.programs import EXAMPLE, EXAMPLE_FILE, example_in_thread
from support.harness.suite_records import record, second, suite_tables, texts

from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.cli.main import main
from deltamark.harness.engines.base import RefusedError
from deltamark.harness.engines.external import named
from deltamark.harness.suites import attach


class Noting(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
    """The example, which notes whether a query is opened for others to come."""

    shared = []  # noqa: RUF012 (of all processes)

    def open(self, request):
        type(self).shared.append(request.get("shared", False))
        return super().open(request)


class Forgetful(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
    """Computes the first answer of the second query, and then no changes of it."""

    def difference(self, query):
        is_first = query is self.queries[self.first]
        return super().difference(query) if is_first or not query.answer else []


@pytest.fixture(autouse=True)
def _greetings_of_each_test():
    named.greeting.cache_clear()
    yield
    named.greeting.cache_clear()


@pytest.fixture(autouse=True)
def _few_batches(monkeypatch):
    monkeypatch.setattr(attach, "BATCHES", 2)


def attached(dataset, engine):
    (reply,) = attach.measure(Cell("q12", "0.001", engine=engine), "q01", dataset.directory)
    return reply


@pytest.mark.parametrize("engine", ["embedded", EXAMPLE])
def test_a_second_query_has_its_answer_at_once_and_with_each_batch(chunked, monkeypatch, engine):
    example_in_thread(monkeypatch, Noting)
    reply = attached(chunked, engine)
    assert reply.verified == "oracle"
    assert reply.figures.keys() == {"seconds", "peak_bytes", "kept_bytes", "before", "after", "alone"}
    assert engine == "embedded" or Noting.shared[-2:] == [True, False], "the second query alone shares nothing"
    sizes = {len(reply.figures[name]) for name in ("before", "after", "alone")}
    assert sizes == {attach.BATCHES}, "orders move with their lines, and the queries read no other relation"


def test_a_second_query_that_is_not_maintained_is_wrong(chunked, monkeypatch):
    example_in_thread(monkeypatch, Forgetful)
    with pytest.raises(WrongAnswerError, match=r"wrong changes: q01, at time \d+ the weight"):
        attached(chunked, EXAMPLE)


def test_an_engine_with_one_query_is_refused(chunked):
    with pytest.raises(RefusedError, match="it attaches no other"):
        attached(chunked, "duckdb")


def test_a_cell_has_two_queries(tmp_path, capsys):
    words = ["plan", "SUITE=attach", f"RESULTS={tmp_path}", f"DATA={tmp_path / 'data'}"]
    assert main([*words, "QUERIES=q03,q05,q10"]) == 0
    assert "2 cells" in capsys.readouterr().out
    assert main([*words, "QUERIES=q03"]) == 2
    assert "no second query: q03" in capsys.readouterr().err


def test_the_table_has_the_ratio_of_the_batches():
    rows = [
        second("q03 q05 mine"),
        record("q03 q05 duckdb", note="refused: it attaches no query", suite="attach", dataset="SF 1",
               table="attached", cell="x"),
    ]  # fmt: skip
    (table,) = suite_tables(rows, "attach")
    assert texts(table) == [
        ["q03", "q05", "mine", "250 ms", "3.0", "1.0", "1.00 ms", "2.50 ms", "2.50x", "2.00 ms", "right"],
        ["q03", "q05", "duckdb", "-", "-", "-", "-", "-", "-", "-", "refused"],
    ]  # fmt: skip
