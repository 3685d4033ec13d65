"""The charts of the report: every runner is drawn, and legends list exactly the drawn series."""

from __future__ import annotations

import re

import pytest
from support.harness.report_records import ON_SPARK, RECORDS, page_of, record

from deltamark.harness.report.cells import tooltip

CHARTS = ("throughput", "latency", "state")


def section(name, records):
    """Return the legend of a section as text, its series in the legend, and its series and points beside it."""
    whole = re.search(rf'<section[^>]* id="{name}".*?</section>', page_of(records), re.DOTALL)[0]
    legend = re.search(r'<ul class="legend">.*?</ul>', whole, re.DOTALL)[0]
    words = [re.sub("<[^>]+>", "", entry) for entry in re.findall("<li>.*?</li>", legend, re.DOTALL)]
    inside, beside = ({*re.findall(r"series (look\d \w+)", text)} for text in (legend, whole.replace(legend, "")))
    return words, inside, beside, re.findall('data-title="([^"]*)"', whole)


@pytest.mark.parametrize("chart", CHARTS)
def test_records_of_spark_are_drawn_with_each_number_of_shards(chart):
    words, _, _, points = section(chart, [*RECORDS, *ON_SPARK])
    expected = {tooltip(record).title for record in ON_SPARK if chart != "state" or record.state_bytes}
    if chart == "state":  # only one batching is drawn
        expected -= {tooltip(ON_SPARK[1]).title}
    assert expected <= {*points}
    shown = {word.partition(":")[0] for word in words}
    assert {"spark, 2 shards", "spark, 3 shards"} <= shown
    assert ("spark-sql, recomputing, 2 shards" in shown) == (chart != "state")


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("records", [RECORDS, RECORDS[:1], ON_SPARK, [*RECORDS, *ON_SPARK]])
def test_legends_list_exactly_the_drawn_series(chart, records):
    words, inside, beside, _ = section(chart, records)
    assert inside == beside
    assert len({*words}) == len(words)


def test_an_engine_without_records_of_one_worker_is_drawn():
    several = [record("q04", 1, 1000, workers=2), record("q04", 1, 1000, 9.0, engine="duckdb")]
    assert "embedded, 2 workers" in section("latency", several)[0]
