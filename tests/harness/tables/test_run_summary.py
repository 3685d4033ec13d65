"""A run ends with a summary that fits a small screen, and tables fold to the width of a terminal."""

from __future__ import annotations

import re
from itertools import product

import pytest
from support.harness.suite_records import record as table_record
from support.harness.table_records import record

from deltamark.harness.benchmarks.cell import CROSSOVER, PHYSICAL, PRODUCT, SMALL
from deltamark.harness.console.table import Table, text, words
from deltamark.harness.suites import reporter
from deltamark.harness.suites.plan import Estimate
from deltamark.harness.tables.relation import Relations
from deltamark.harness.tables.tpch import summary

ENGINES = ("embedded", "duckdb", "spark", "exec:./a-program-with-a-long-name --and --arguments")
BATCHINGS = list(dict.fromkeys((*PHYSICAL, *PRODUCT, *SMALL, *CROSSOVER)))


def shown(records):
    return text(summary(records, "1"), 80)


def test_the_largest_sweep_fits_the_screen():
    records = [
        record(query, *batching, engine=engine, workers=workers, workload=workload)
        for query, batching, engine, workers, workload in product(
            ("q01", "q02"), BATCHINGS, ENGINES, (1, 2), ("insert", "window:100000")
        )
    ]
    lines = shown(records).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any("more batchings are in the tables" in line for line in lines)
    ours = {" ".join(line.split()[1:4]) for line in lines if line.startswith("embedded ")}
    assert ours >= {"1 x 1", "1 x 1000", "1 x 100000", "100000 x 1"}


def test_long_names_of_different_workloads_differ():
    cells = product(("duckdb", ENGINES[-1]), ("insert", "slide:1000", "window:100000"), (1, 2))
    records = [record("q01", 1, 1000, engine=engine, workload=work, workers=workers) for engine, work, workers in cells]
    names = [row[0].text for row in summary(records, "1").rows]
    assert len(set(names)) == len(names) == len(records)


def test_a_line_has_the_mean_and_the_extremes_in_one_unit():
    rates = {"q01": 4_000_000, "q02": 1_000_000, "q03": 16_000_000}
    records = [record(query, 1, 1000, took=6_000_000 / rate) for query, rate in rates.items()]
    [line] = [line for line in shown(records).splitlines() if line.startswith("embedded")]
    assert line.split() == ["embedded", "1", "x", "1000", "4.00", "q02", "1.00", "q03", "16.0"]


def test_means_over_fewer_queries_are_marked():
    records = [record("q01", 1, 1), record("q01", 1, 1000), record("q02", 1, 1000), record("q02", 1, 1, status="wrong")]
    found = shown(records)
    assert "12.0 (1)" in found
    assert "(n): a mean over n queries alone" in found


TABLE = Table(
    "t",
    "Title",
    ["query", "long header", *"bcdef"],
    [[words("q01"), *(words(f"{n}" * 9) for n in range(6))]],
    ["a note"],
)


@pytest.mark.parametrize("width", [23, 29, 30, 31, 40, 60, 200])
def test_a_table_folds_to_the_width(width):
    lines = text(TABLE, width).splitlines()
    assert max(map(len, lines)) <= width
    entries = [entry for line in lines if line.startswith("q01") for entry in line.split()[1:]]
    assert entries == [f"{n}" * 9 for n in range(6)]
    assert lines[-1] == "  a note"


def test_a_table_is_not_folded_in_a_file():
    assert sum(line.startswith("q01") for line in text(TABLE).splitlines()) == 1


def test_a_batch_of_the_whole_stream_stands_for_all_larger_ones():
    whole = record("q01", 1, 10_000, batches=1)
    at_one_time = record("q03", 100_000, 1, batches=1)
    db = Relations.of_queries([whole, record("q02", 1, 10_000, batches=2), at_one_time])

    def found(query, logical, physical):
        return db.of(f"SELECT id FROM single WHERE (query, L, P) = ('{query}', {logical}, {physical})")

    assert found("q01", 1, 1_000_000) == [whole]
    assert found("q01", 1, 1000) == found("q01", 10, 10_000) == found("q02", 1, 1_000_000) == []
    assert found("q03", 1_000_000, 1) == [at_one_time]


LINES = [
    record("q13", 1, 100_000, workload="window:1000", engine="duckdb", workers=2, elapsed=3.0),
    record("q01", 1, 1000, status="timeout", limit=600.0, engine=ENGINES[-1], seconds=[]),
    record("q02", 1, 1000, status="wrong", problem="another answer\nmake verify " + "q02 " * 30, seconds=[]),
    table_record("row", suite="graph", cell="4-clique, 10 batches of 10,000 edges, two workers", verified="DuckDB"),
]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_lines_of_cells_fold_to_the_width(monkeypatch, width):
    """They have the same words as the lines in a file, which do not fold."""
    folded, whole = (_lines_of_cells(monkeypatch, columns) for columns in (width, None))
    assert len(whole.splitlines()) == len(LINES) + 1, "one problem has two lines"
    assert max(map(len, folded.splitlines())) <= width
    assert _letters(folded) == _letters(whole)


def _lines_of_cells(monkeypatch, width):
    printed = []
    monkeypatch.setattr(reporter, "terminal_width", lambda: width)
    monkeypatch.setattr(reporter, "say", printed.append)
    with reporter.Reporter(1000) as lines:
        for number, each in enumerate(LINES, 1):
            lines.on_records([each], 1000 - number, Estimate(3000.0, 1, 999))
    return "\n".join(printed)


def _letters(text):
    return re.findall(r"\w+", text)
