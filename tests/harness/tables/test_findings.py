"""Findings equal a plain computation over the same records: winners, ties, pairs, and where recomputing wins."""

from __future__ import annotations

import re
from collections import defaultdict

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.harness.records import changed
from support.harness.table_records import record, texts

from deltamark.harness.results.plausibility import MAX_RATE
from deltamark.harness.results.record import EngineInfo
from deltamark.harness.tables.findings import ASSUMED_SPREAD, MARGIN, findings, findings_tables, relation

MAINTAINING, AGAIN = (
    EngineInfo("Peer 1", "digest", "stream"),
    EngineInfo("Again 1", "digest", "answers", maintains=False),
)
ENGINES = {
    "embedded": {}, "duckdb": {}, "peer": {"engine": "peer=exec:./peer", "external": MAINTAINING},
    "again": {"engine": "again=exec:./again", "external": AGAIN},
}  # fmt: skip
NAMES = {"embedded": "embedded", "duckdb": "DuckDB", "peer": "peer", "again": "again"}
RECOMPUTING = {"DuckDB", "again"}
NO_NUMBERS = {"seconds": [], "latency": {}, "problem": "why"}
TUPLES = 6_000_000
IMPLAUSIBLE = TUPLES / MAX_RATE / 10
"""Seconds in which no processor reads the tuples."""


def cell(engine, query="q01", size=1000, seconds=(1.0,), status="ok", **changes):
    failed = {"status": status, **NO_NUMBERS} if status != "ok" else {}
    of_engine = {"engine": engine} | ENGINES[engine]
    return record(query, size, 1, **{"seconds": list(seconds), **of_engine, **failed, **changes})


times = st.lists(st.sampled_from([1.0, 1.04, 1.06, 1.3, 1.6, 2.0, 9.0, IMPLAUSIBLE]), min_size=1, max_size=3)
cells = st.builds(
    lambda engine, query, size, seconds, status, data, workers: (
        NAMES[engine],
        cell(engine, query, size, seconds, status, data=data, workers=1 if engine == "duckdb" else workers),
    ),
    st.sampled_from([*ENGINES]),
    st.sampled_from(["q01", "q02"]),
    st.sampled_from([1000, 100_000]),
    times,
    st.sampled_from(["ok", "ok", "ok", "wrong", "failed", "timeout", "refused"]),
    st.sampled_from(["data", "data", "newer"]),
    st.sampled_from([1, 1, 2]),
)


def beats(one, other):
    """Return whether the runs of an engine are faster than those of another."""
    slowest = max(one) * (ASSUMED_SPREAD if len(one) == 1 else 1)
    return min(other) > (1 + MARGIN) * min(one) and min(other) > slowest


def expected(drawn):
    """Return the runs and the leaders of each cell that several engines have."""
    last = {
        (each.data, each.query, each.logical, each.workers, name): (at, each) for at, (name, each) in enumerate(drawn)
    }
    groups = defaultdict(dict)
    for (data, query, size, workers, name), measured in last.items():
        groups[query, size, workers, data][name] = measured
    newest = {data: at for at, data in enumerate(dict.fromkeys(each.data for _, each in drawn))}
    found = {}
    for (query, size, workers, data), measured in groups.items():
        if len(measured) > 1:
            runs = {
                name: each.seconds
                for name, (_, each) in measured.items()
                if each.has_numbers and (each.external is None or min(each.seconds) > IMPLAUSIBLE)
            }
            rank = len(measured), newest[data]
            found.setdefault((query, size, workers), []).append((rank, runs))
    best = {place: max(of_data, key=lambda pair: pair[0])[1] for place, of_data in found.items()}
    return {place: (runs, leaders_of(runs)) for place, runs in best.items() if runs}


def leaders_of(runs):
    fastest = min(map(min, runs.values()))
    first = [name for name, seconds in runs.items() if min(seconds) == fastest]
    return [{name for name in runs if not beats(runs[leader], runs[name])} for leader in first]


@settings(max_examples=60)
@given(st.lists(cells, max_size=12))
@example([])
@example([("embedded", cell("embedded")), ("DuckDB", cell("duckdb", status="refused"))])
def test_leaders_and_crossovers_equal_a_plain_computation(drawn):
    db = relation([each for _, each in drawn])
    found = db.rows("SELECT query, L, workers, list_transform(leaders, lambda run: run.name) FROM findings")
    plain = expected(drawn)
    assert {(query, size, workers) for query, size, workers, _ in found} == plain.keys()
    for query, size, workers, leaders in found:
        assert {*leaders} in plain[query, size, workers][1]
    crossovers = db.rows("SELECT query, workers, first FROM crossovers WHERE query <> '' AND shape = 'P = 1'")
    assert {(query, workers): first for query, workers, first in crossovers} == crossings(plain)


def crossings(plain):
    """Return the least size from which the fastest recomputing engine beats the fastest maintaining one."""
    won = defaultdict(dict)
    for (query, size, workers), (runs, _) in plain.items():
        sides = [[runs[name] for name in runs if (name in RECOMPUTING) == again] for again in (False, True)]
        if all(sides):
            kept, again = (min(side, key=lambda runs: (min(runs), len(runs) == 1, runs)) for side in sides)
            won[query, workers][size] = beats(again, kept)
    return {
        key: min((size for size in sizes if all(sizes[each] for each in sizes if each >= size)), default=None)
        for key, sizes in won.items()
    }


@settings(max_examples=20)
@given(st.lists(cells, max_size=12))
def test_a_sentence_never_names_an_engine_that_did_not_win(drawn):
    found = findings([each for _, each in drawn])
    winners = {(query, workers, *each) for (query, _, workers), (_, all_) in expected(drawn).items() for each in all_}
    for of_scope in found.scopes if found else []:
        for query, text in of_scope.queries.items():
            for name in re.findall(r"(\w+) is the fastest", text):
                assert (query, of_scope.scope.workers, name) in winners


def test_the_winner_at_each_size_and_the_crossover_are_said_in_words():
    records = [
        *(cell("embedded", size=size, seconds=[1.0, 1.0]) for size in (1000, 10_000, 100_000)),
        cell("duckdb", size=1000, seconds=[80.0, 90.0]), cell("duckdb", size=10_000, seconds=[12.0, 12.0]),
        cell("duckdb", size=100_000, seconds=[0.5, 0.6]),
    ]  # fmt: skip
    found = findings(records)
    assert (
        found.headline == "Of 3 cells that several engines have, the fastest engine is embedded in 2 and DuckDB in 1."
    )
    assert found.summary == [
        "DuckDB recomputes: it runs the query again after each batch. embedded maintains its answers."
    ]
    (scope,) = found.scopes
    assert scope.queries["q01"] == (
        "q01: embedded is the fastest up to 10,000 x 1, 12.00 to 80.00 times as fast as DuckDB; "
        "DuckDB is the fastest at 100,000 x 1, 2.00 times as fast as embedded."
    )
    both = "in the geometric mean of the 3 cells that both have"
    assert scope.summary == [
        f"embedded is 7.83 times as fast as DuckDB {both}; it wins 2 and loses 1.",
        "With P = 1, recomputing is faster than the fastest maintained answer for q01 from 100,000 rounds a batch.",
    ]
    pairs, fastest = findings_tables(records)
    assert texts(pairs.rows[0]) == ["embedded", "DuckDB", "insert", "1", "3", "2", "0", "1", "7.83x"]
    assert texts(fastest.rows[0]) == ["q01", "embedded 80.00x", "embedded 12.00x", "DuckDB 2.00x", "100,000"]


def test_the_sum_over_queries_crosses_where_its_terms_do_on_the_whole():
    records = [
        *(cell("embedded", query, size, [1.0, 1.0]) for query in ("q01", "q02") for size in (1000, 100_000)),
        *(cell("duckdb", query, 1000, [9.0, 9.0]) for query in ("q01", "q02")),
        cell("duckdb", "q01", 100_000, [0.2, 0.2]), cell("duckdb", "q02", 100_000, [1.2, 1.2]),
    ]  # fmt: skip
    (scope,) = findings(records).scopes
    _, of_queries, in_sum = scope.summary
    assert of_queries == (
        "With P = 1, recomputing is faster than the fastest maintained answer for q01 from 100,000 rounds a batch; for "
        "1 query at no size up to 100,000 rounds a batch."
    )
    assert in_sum == "In the sum of 2 queries, recomputing is faster from 100,000 rounds a batch (1.43 times as fast)."


def test_cells_without_a_right_number_are_named_and_never_win():
    records = [
        cell("embedded"), cell("duckdb", seconds=[9.0]), cell("embedded", "q02"), cell("peer", "q02", status="refused"),
        cell("peer", size=100_000, status="wrong"), cell("peer", seconds=[IMPLAUSIBLE] * 2),
        cell("embedded", "q03", size=1, status="timeout"),
    ]  # fmt: skip
    found = findings(records)
    assert found.headline == "Of 1 cell that several engines have, the fastest engine is embedded in 1."
    assert found.summary[1:] == [
        "embedded: 1 cell timed out: q03.", "peer: 1 cell is not plausible: q01 at 1,000 x 1.",
        "peer: 1 cell is refused: q02.", "peer: 1 cell is wrong: q01 at 100,000 x 1.",
        "Of 2 compared cells, 2 had one timed run, for which a spread of 50% is assumed.",
    ]  # fmt: skip
    assert found.scopes[0].queries["q02"] == "q02: embedded alone has a number at 1,000 x 1."


def test_only_cells_of_the_same_data_workload_and_workers_are_compared():
    other = [
        cell("duckdb", data="other"), cell("duckdb", workload="window:9"), cell("embedded", workers=2),
        changed(cell("duckdb", size=100_000), logical=1, physical=100_000), cell("duckdb", "q02"),
    ]  # fmt: skip
    found = findings([cell("embedded"), *other])
    assert found.headline == "None of 6 cells with a plausible number is comparable with one of another engine."
    assert found.summary[-1].startswith("Not compared: 2 cells of embedded and 4 cells of duckdb, because no other")
    assert findings_tables([cell("embedded"), *other]) == []


def test_one_engine_has_no_findings():
    assert findings([cell("embedded"), cell("embedded", "q02")]) is None


def test_an_engine_that_recomputes_some_queries_is_said_to():
    again = changed(cell("peer", "q02"), recomputed=1)
    found = findings([again, cell("peer"), cell("embedded"), cell("embedded", "q02")])
    assert found.summary[0] == (
        "peer, for q02, recomputes: it runs the query again after each batch. embedded maintains its answers."
    )
