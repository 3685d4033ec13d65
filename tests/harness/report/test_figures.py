"""The figure of right answers has a mark for each record of coverage of TPC-H, whose shape says the outcome."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from support.harness.records import changed
from support.harness.site_records import OF_ANOTHER_BENCHMARK, grade

from deltamark.harness.report.figures import MARKS, engines
from deltamark.harness.tables.suites import GRADES


def graded(engine, query, name, recomputed=0, **figures):
    return grade(engine, query, {"grade": [GRADES.index(name)], "recomputed": [recomputed], "compared": [9], **figures})


BLANK = grade("mine", "q08", {})
OUTCOMES = {
    "times": graded("mine", "q01", "times"),
    "batches": graded("mine", "q02", "batches"),
    "end": graded("mine", "q03", "end"),
    "insertions": graded("mine", "q04", "batches", only_insertions=[1]),
    "recomputed": graded("mine", "q05", "batches", recomputed=1),
    "wrong": graded("mine", "q06", "wrong", only_insertions=[1]),
    "refused": grade("mine", "q07", {}, note="refused: a subquery"),
    "failed": changed(BLANK, status="timeout", limit=60.0),
}
"""A record of each outcome, of one engine."""


def marks(svg):
    """Return the marks of the figure by their heights: the matrix, whose last line is that of the legend."""
    found = {}
    for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}use"):
        found.setdefault(float(element.get("y")), []).append(element.get("href").removeprefix("#"))
    return [*found.values()]


def test_marks_differ_by_shape_without_color():
    assert len({mark.shape for mark in MARKS.values()}) == len(MARKS)


def test_each_record_has_the_mark_of_its_outcome():
    svg = engines([*OUTCOMES.values()])
    row, *legend = marks(svg)
    assert row == [*OUTCOMES]
    assert [name for line in legend for name in line] == [*MARKS], "the legend has every mark of the figure"
    assert "0 of 1 engine answer all 8 queries" in svg
    assert "mine (maintained): 1 right at every logical time, " in svg


@pytest.mark.parametrize("status", ["timeout", "failed"])
def test_a_cell_without_an_answer_is_not_right(status):
    svg = engines([graded("mine", "q01", "times"), changed(BLANK, status=status)])
    assert marks(svg)[0] == ["times", "failed"]


def test_engines_that_maintain_come_first_and_the_best_of_these():
    records = [
        graded("again", "q01", "batches", recomputed=1), grade("none", "q01", {}), graded("wrong", "q01", "wrong"),
        graded("batches", "q01", "batches"), graded("times", "q01", "times"),
    ]  # fmt: skip
    names = re.findall(r'<text x="20"[^>]*>(.*?)</text>', engines(records))
    assert names == ["times", "batches", "wrong", "again", "none"]
    assert "3 of 5 engines answer all 1 query" in engines(records)


def test_only_the_last_record_of_a_cell_is_shown():
    old = changed(OUTCOMES["wrong"], finished_at="2026-01-01T00:00:00+00:00")
    new = changed(graded("mine", "q06", "times"), finished_at="2026-01-02T00:00:00+00:00")
    assert marks(engines([old, new]))[0] == ["times"]


def test_records_of_another_benchmark_change_nothing():
    records = [*OUTCOMES.values()]
    assert engines([*records, *OF_ANOTHER_BENCHMARK]) == engines(records)
    assert engines(OF_ANOTHER_BENCHMARK) == ""
