"""All queries in one dataflow, on tiny data: right at random rounds, with shared arrangements, attached one by one."""

from __future__ import annotations

import re
import runpy

import pyarrow as pa
import pytest
from support.harness.programs import EXAMPLE, EXAMPLE_FILE, example_in_thread

from deltamark.datagen.workloads.registry import workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.cli.main import main
from deltamark.harness.engines.base import RefusedError
from deltamark.harness.engines.external import named
from deltamark.harness.suites import sharing
from deltamark.harness.suites.sharing import SharedQueries, arrangements, check, loads, numbers_of

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


@pytest.fixture(autouse=True)
def _greetings_of_each_test():
    named.greeting.cache_clear()
    yield
    named.greeting.cache_clear()


QUERIES = ("q05", "q11", "q18", "q21")


@pytest.fixture
def shared(chunked):
    return SharedQueries(chunked.directory, {name: Cell(name, "0.001") for name in QUERIES})


def cells(*queries, logical=1, physical=1000, engine="embedded"):
    return [Cell(name, "0.001", logical=logical, physical=physical, engine=engine) for name in queries]


def test_all_answers_are_right_at_any_round(chunked):
    check(cells(*QUERIES, logical=7, physical=13), chunked, [7, 700, workload(chunked, "insert").rounds])


def test_a_wrong_answer_is_reported(chunked, monkeypatch):
    monkeypatch.setattr(sharing.Summed, "rows", lambda _: [("wrong",)])
    with pytest.raises(WrongAnswerError, match=r"q05, .*, together with others, after"):
        check(cells(*QUERIES), chunked, [1000])


def test_shared_queries_keep_fewer_rows_than_separate_ones(chunked):
    one, two, all_of_them = loads(cells(*QUERIES), chunked.directory, 2)
    assert [min(row.figures["queries"]) for row in (one, two, all_of_them)] == [1, 2, 4]
    assert one.figures["together_rows"] == one.figures["alone_rows"]
    assert one.figures["together_seconds"] == one.figures["alone_seconds"]
    assert len(all_of_them.figures["together_seconds"]) == len(all_of_them.figures["alone_seconds"]) == 2
    assert min(all_of_them.figures["together_rows"]) < min(all_of_them.figures["alone_rows"])


def test_a_program_has_several_queries_from_the_beginning(chunked, monkeypatch):
    example_in_thread(monkeypatch)
    *_, row = loads(cells("q12", "q01", "q06", physical=4000, engine=EXAMPLE), chunked.directory, 1)
    assert row.row.endswith(" 3")
    assert min(row.figures["together_rows"]) < min(row.figures["alone_rows"]), "each row is kept once"


def test_a_program_with_whole_answers_has_several_queries(chunked, monkeypatch):
    class Answering(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
        def hello(self, request):
            return {**super().hello(request), "output": "answers"}

        def apply(self, request):
            super().apply(request)
            return {"changes": sum(each.answer.total() for each in self.queries.values())}

        def answer(self, request):
            query = self.queries[request.get("query", self.first)]
            query.changed = [(0, 1, *row) for row in query.answer.elements()]
            reply = self.changes(request)
            path = self.directory / reply["file"]
            with pa.ipc.open_file(path.read_bytes()) as file:
                rows = file.read_all().drop_columns(["time", "diff"])
            with pa.ipc.new_file(str(path), rows.schema) as file:
                file.write_table(rows)
            return reply

    example_in_thread(monkeypatch, Answering)
    check(cells("q12", "q01", physical=2000, engine=EXAMPLE), chunked, [4000, 8000])


def test_a_second_query_that_is_wrong_is_found(chunked, monkeypatch):
    class Forgetful(runpy.run_path(str(EXAMPLE_FILE))["Engine"]):
        def difference(self, query):
            return super().difference(query) if query is self.queries[self.first] else []

    example_in_thread(monkeypatch, Forgetful)
    with pytest.raises(WrongAnswerError, match=r"q01, .*, together with others"):
        check(cells("q12", "q01", engine=EXAMPLE), chunked, [1000])


def test_an_engine_with_one_query_is_refused(chunked):
    with pytest.raises(RefusedError, match="it attaches no other"):
        check(cells("q12", "q01", engine="duckdb"), chunked, [1000])


def test_the_numbers_of_queries_are_powers_of_two_and_all():
    assert [numbers_of(queries) for queries in (1, 2, 3, 8, 22)] == [
        [1], [1, 2], [1, 2, 3], [1, 2, 4, 8], [1, 2, 4, 8, 16, 22],
    ]  # fmt: skip


def test_shared_arrangements_are_named_with_their_readers(shared):
    assert ("lineitem, by orderkey", "q05 q21") in [(row.row, row.note) for row in arrangements(shared)]


def test_the_suite_measures_every_table(data, tmp_path, capsys):
    words = ["bench", "SUITE=shared", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}", "QUERIES=q03,q05", "RUNS=1"]
    assert main([*words, "PHYSICAL=1000"]) == 0
    out = capsys.readouterr().out
    for title in (
        "Queries in one engine",
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
    monkeypatch.setattr(sharing.Summed, "rows", lambda _: [("wrong",)])
    words = ["bench", "SUITE=shared", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}", "QUERIES=q05", "RUNS=1"]
    assert main([*words, "PHYSICAL=1000"]) == 2
    wrong = capsys.readouterr().err
    assert re.search("WRONG: a wrong answer: q05, .*, together with others", wrong)
    assert "WRONG: a wrong answer: q05, attached while others run" in wrong


def test_an_unknown_query_is_an_error(data, tmp_path, capsys):
    words = ["bench", "SUITE=shared", "SF=0.001", f"DATA={data}", f"RESULTS={tmp_path}"]
    assert main([*words, "QUERIES=q23"]) == 2
    assert "q23" in capsys.readouterr().err
