"""Suites, with cells that only yield a row: resumption, stops, wrong answers, limits and tables."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.harness.suite_records import (
    FIGURES,
    MOTIFS,
    ORIGIN,
    SLOW,
    WRONG,
    FakeCells,
    Sink,
    dies,
    distances,
    fails,
    load,
    measure,
    measured,
    record,
    suite_tables,
    texts,
)

from deltamark.dataflow.sql.problems import SqlError
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.base import RefusedError
from deltamark.harness.measure.client import CellReply
from deltamark.harness.results import store
from deltamark.harness.results.record import latest
from deltamark.harness.suites.plan import Effort

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


def static(found):
    return next(table for table in suite_tables(found, "graph") if table.name == "static-rmat-7")


def test_records_make_the_tables():
    assert texts(static(measured())) == [[name, "7", "500 ms", "1.00 s", "9", "500 ms", "2.00x"] for name in MOTIFS]
    assert {table.name for table in suite_tables(measured(), "graph")} == {
        "static-rmat-7", "cost-rmat-7", "memory-rmat-7",
    }  # fmt: skip
    assert suite_tables(measured(), "shared") == []


@pytest.mark.parametrize(
    ("done", "text", "problem"),
    [
        (WRONG, "WRONG", "two counts: 5; ask"),
        (fails(DeltamarkError("no memory", 5, "buy")), "failed", "no memory: 5; buy"),
        (fails(MemoryError("7 GB")), "failed", "MemoryError: 7 GB"),
        (dies, "failed", "ended by SIGKILL, perhaps for want of memory"),
    ],
)
def test_a_failure_is_shown_for_its_cell_alone_and_never_as_a_number(done, text, problem):
    found = measured(triangle=done)
    assert texts(static(found))[0] == ["triangle", *[text] * 6]
    assert found[0].problem == problem
    assert [each.status for each in found[1:]] == ["ok", "ok"]
    for table in suite_tables(found, "graph"):
        rows = [row for row in texts(table) if "triangle" in row[0]]
        assert all({*row[1:]} <= {text, "-"} for row in rows), table.name


@pytest.mark.parametrize("refusal", [RefusedError, SqlError])
def test_a_refused_query_is_done_and_has_the_reason(refusal):
    found = measured(triangle=fails(refusal("no such query", "LATERAL\nsecond line", "leave it out")))
    assert (found[0].status, found[0].note, found[0].figures) == ("ok", "refused: LATERAL", {})
    fakes = FakeCells()
    measure(fakes, Sink(), found)
    assert fakes.prepared == []


def test_a_cell_that_exceeds_the_limit_is_ended():
    found = measured(Effort(1, 0.2), **SLOW)
    assert texts(static(found)) == [[name, *[">0.2s"] * 6] for name in MOTIFS]
    assert {(each.status, each.is_bad) for each in found} == {("timeout", False)}
    assert all(each.problem.startswith("over 0.2 s") for each in found)


def test_a_cell_measured_by_the_same_code_is_not_measured_again():
    first = measured()
    for origin, runs, again in (
        (ORIGIN, 1, 0), (replace(ORIGIN, session="next", commit="other"), 1, 0), (ORIGIN, 2, 3),
        (replace(ORIGIN, code="other"), 1, 3), (replace(ORIGIN, versions="other"), 1, 3),
    ):  # fmt: skip
        fakes = FakeCells()
        measure(fakes, Sink(), first, origin, Effort(runs, 600.0))
        assert len(fakes.prepared) == again


def test_a_timeout_is_measured_again_under_a_larger_limit():
    first = measured(Effort(1, 0.2), **SLOW)
    for limit, again in ((0.1, []), (0.2, []), (600.0, [*MOTIFS])):
        fakes = FakeCells()
        measure(fakes, Sink(), first, effort=Effort(1, limit))
        assert fakes.prepared == again


def test_a_wrong_cell_is_measured_again():
    first = measured(triangle=WRONG)
    fakes = FakeCells()
    again = measure(fakes, Sink(), first)
    assert fakes.prepared == ["triangle"]
    assert texts(static([*first, *again])) == texts(static(measured()))


def test_a_stopped_and_resumed_suite_equals_an_uninterrupted_one():
    sink, whole = Sink(most=1), measured()
    while len(sink.records) < len(whole):
        before = len(sink.records)
        measure(FakeCells(), sink, sink.records)
        assert len(sink.records) == before + 1
        sink._most += 1
    assert texts(static(sink.records)) == texts(static(whole))


def test_records_from_before_an_interruption_are_kept():
    sink, fakes = Sink(), FakeCells()
    fakes.interrupted = "4-clique"
    with pytest.raises(KeyboardInterrupt):
        measure(fakes, sink)
    assert [record.row for record in sink.records] == ["triangle"]


def test_the_last_record_of_a_cell_counts_with_all_its_rows():
    lines = [("a", "x", "1"), ("b", "x", "1"), ("c", "y", "1"), ("b", "x", "2")]
    records = [record(row, cell=cell, finished_at=at) for row, cell, at in lines]
    assert latest(records[:3]) == records[:3]
    assert latest(records) == records[2:]


def test_rows_are_in_the_order_of_their_numbers():
    figures = {"changes": [9], "proposals": [9], "p99_w1": [1], "p99_w2": [1], "seconds_w1": [1], "seconds_w2": [1]}
    figures |= {"by_hand": [1], "batches": [1], "state_bytes": [8], "edges": [1]}
    found = [
        record(row, figures, suite="graph", dataset="rmat:7", table="changing", cell=row) for row in ("1000", "1", "10")
    ]
    shown = {table.name: [row[0] for row in texts(table)] for table in suite_tables(found, "graph")}
    assert shown["changing-rmat-7"] == ["1", "10", "1K"]


def test_cost_is_the_fewest_workers_that_beat_one_thread():
    figures = {"batches": [1], "seconds_w1": [3.0], "seconds_w2": [2.0]}
    costs = []
    for hand in (4.0, 2.5, 1.0):
        figures |= {"by_hand": [hand]}
        found = record("triangle", figures, suite="graph", dataset="x", table="at once", cell="x")
        (table,) = suite_tables([found], "graph")
        costs.append(texts(table)[0][-1])
    assert costs == ["1", "2", "more than 2"]


def test_the_rows_of_a_cell_are_records_of_one_measurement(tmp_path):
    fakes = FakeCells()
    fakes.rows = [CellReply(row=name, figures=FIGURES, note="a note") for name in ("one", "two")]
    found = measure(fakes, Sink())
    assert [each.row for each in found] == ["one", "two"] * 3
    assert {each.note for each in found} == {"a note"}
    assert len({(each.cell, each.key, each.finished_at) for each in found}) == 3
    with store.writing(tmp_path) as writer:
        writer.add(found)
    assert store.read(tmp_path).records == found
    assert measure(fakes, Sink(), found) == []


def test_a_cell_without_rows_is_done():
    fakes = FakeCells()
    fakes.rows = []
    found = measure(fakes, Sink())
    assert [(each.row, each.status, each.figures) for each in found] == [(name, "ok", {}) for name in MOTIFS]
    assert measure(fakes, Sink(), found) == []


def test_distances_stand_beside_those_of_the_post_on_the_same_graph():
    speed, _, updates = suite_tables(distances(), "loops")
    assert [[entry.text for entry in row] for row in speed.rows] == [
        ["the index alone", "1.00 s", "-", "-"], ["from scratch", "20.2 s", "10.1 s", "0.50x"],
        ["from scratch, with fresh memory", "25.2 s", "-", "-"], ["attachment", "3.08 s", "6.15 s", "2.00x"],
    ]  # fmt: skip
    assert [entry.text for entry in updates.rows[0]] == ["100", "4", "125 ms", "800/s"]
    other = suite_tables(distances("5 nodes, 6 edges, 1 roots"), "loops")[0]
    assert [row[-1].text for row in other.rows] == ["-"] * 4


def test_the_gain_of_sharing_is_the_median_of_pairs():
    loads, state = suite_tables([load(together_bytes=[2e6])], "shared")
    assert texts(loads) == [["embedded", "1 x 1000", "-", "1.00 s", "50/s", "2.00 s", "0.38x", "-", "2", "0"]]
    assert texts(state) == [
        ["embedded", "together", "4", "2", "-", "0"], ["embedded", "alone, sum", "4", "0", "-", "0"],
    ]  # fmt: skip


def test_one_more_query_costs_what_it_adds_to_the_others():
    fewer = load("1 x 1000 mine 1", queries=[1], together_seconds=[2.0, 2.0], alone_seconds=[2.0, 2.0])
    more = load("1 x 1000 mine 2", queries=[2], together_seconds=[3.0, 3.5], alone_seconds=[4.0, 5.0])
    refused = replace(load("1 x 1000 other", note="refused: it has one query"), figures={}, cell="y")
    loads, state = suite_tables([fewer, more, refused], "shared")
    assert [[*row[:4], row[7]] for row in texts(loads)] == [
        ["other", "1 x 1000", "-", "refused", "refused"], ["mine", "1 x 1000", "1", "2.00 s", "-"],
        ["mine", "1 x 1000", "2", "3.00 s", "0.50x"],
    ]  # fmt: skip
    assert [row[0] for row in texts(state)] == ["mine", "mine"]
