"""The section of rates: a line for each engine, hollow marks where a rate is not sustained, and commands."""

from __future__ import annotations

import re

import pytest
from support.harness.suite_records import rates, suite_tables, texts

from deltamark.harness.report.document import render
from deltamark.harness.report.sections import suites as section

CELLS = [
    rates("q01 on embedded", (1000, 0.001), (16_000, 0.002), (20_000, 0.9, "latency grows")),
    rates("q01 on duckdb"),
    rates("q05 window:100 burst:1.5 on embedded"),
]
RECORDS = [record for of_cell in CELLS for record in of_cell]


def drawn(records):
    return str(render(section.rates(records)))


def test_the_finding_has_the_highest_rate_of_each_engine():
    assert section.rates(RECORDS).finding == (
        "The highest sustained rate of rounds is 8.00K/s with embedded and 4.00K/s with duckdb (over 1), in the "
        "geometric mean of 2 streams."
    )
    assert section.rates(CELLS[0]).finding == "The highest sustained rate of rounds is 16.00K/s with embedded."
    failing = rates("q01 on slow", (10, 9.0, "p99 over 1 s"))
    assert section.rates(failing).finding == "No engine sustains a rate."


def test_each_stream_has_a_panel_and_each_engine_a_look():
    text = drawn(RECORDS)
    assert re.findall("<figcaption>([^<]+)", text) == ["q01, SF 1", "q05 window:100 burst:1.5, SF 1"]
    legend, _, charts = text.partition("</ul>")
    assert re.findall(r"series (look\d) solid", legend) == ["look0", "look1"]
    assert re.findall(r"series (look\d \w+)", charts) == [
        f"{look} {kind}" for look in ("look0", "look1", "look0") for kind in ("solid", "hollow")
    ]
    assert charts.count('class="point"') == 9


def test_a_point_is_the_best_trial_at_its_rate():
    disturbed = [(1000, 0.5, "latency grows"), (1000, 0.03), (1000, 0.02), (4000, 9.0, "latency grows")]
    (curve,) = section.curves(rates("q01 on embedded", *disturbed))
    assert [(each.least("rate"), each.least("p99")) for each in curve.trials] == [(1000, 0.02), (4000, 9.0)]
    assert curve.highest == 1000


def test_points_have_the_command_that_measures_them_again():
    text = drawn(RECORDS)
    for settings in ("QUERY=q01 SF=1 ENGINES=duckdb", "QUERY=q05 SF=1 WORKLOAD=window:100 ARRIVALS=burst:1.5 ENGINES"):
        assert f'data-command="make rate {settings}' in text
    assert "recovery from the largest burst in 3 ms" in text


def test_records_of_other_suites_are_not_drawn():
    assert section.rates([]) is None


@pytest.mark.parametrize("number", range(len(CELLS)))
def test_the_table_has_the_highest_sustained_rate(number):
    best, trials = suite_tables(CELLS[number], "rate")
    ((_, rounds, *_, above, tried),) = texts(best)
    assert (rounds, above, tried) == ("16.00K/s" if number == 0 else "4.00K/s", "latency grows", "3")
    assert [line[-1] for line in texts(trials)] == ["sustained", "sustained", "latency grows"]
