"""Every section of the report begins with a number, and shows the engines side by side."""

from __future__ import annotations

import html
import re

import pytest
from support.harness.history_records import history_of, measured, noisy_step
from support.harness.report_records import ON_SPARK, RECORDS, TABLE_RECORDS, page_of, record
from support.harness.suite_records import distances, growths, kill, second
from support.harness.suite_records import record as table_record

from deltamark.harness.report.sections.history import history_page
from deltamark.harness.results.record import EngineInfo

PEER = EngineInfo("a peer 1.2", "digest", "stream")
OF_TWO_ENGINES = [
    record(query, *batching, 0.5 * times, engine=engine, workers=workers, digest=f"{query} {engine}", external=external)
    for query, slower in (("q01", 2), ("q04", 4))
    for batching in ((1, 1000), (1, 100_000), (100_000, 1))
    for workers in (1, 2)
    for engine, times, external in (("embedded", 1, None), ("peer=exec:./peer", slower, PEER))
]
STATIC = table_record("triangle", {"seconds_w1": [1.0], "by_hand": [2.0]}, suite="graph", table="static", cell="s")


def findings(text):
    """Return the sentence at the beginning of each section."""
    sections = re.findall(r'<section id="([^"]+)"><h2>[^<]*</h2><p class="finding">(.*?)</p><p class="lead">', text)
    assert len(sections) == text.count("<section")
    return {name: html.unescape(finding) for name, finding in sections}


def of(records, table_records=()):
    return findings(page_of(records, table_records))


def rows(records, name, table_records=()):
    """Return the texts of the rows of a table."""
    text = page_of(records, table_records)
    table = re.search(rf'<details id="table-{name}".*?</table>', text, re.DOTALL)
    body = re.findall(r"<tr.*?</tr>", table[0].partition("<tbody>")[2], re.DOTALL)
    return [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in body]


@pytest.mark.parametrize(
    "records", [RECORDS, RECORDS[:1], RECORDS[-1:], ON_SPARK, [*RECORDS, *ON_SPARK], OF_TWO_ENGINES, []]
)
def test_every_section_begins_with_a_sentence_with_a_number(records):
    found = of(records, [*TABLE_RECORDS, *distances(), STATIC])
    assert {"sharing", "loops", "graphs", "machine"} <= found.keys()
    assert all(re.search(r"\d.*\.$", finding) for finding in found.values()), found


def test_the_history_begins_with_the_number_of_steps():
    assert findings(history_page(history_of(measured(noisy_step(2, 24, 14, 1.2))))) == {
        "history": "The times of 1 cell over 24 commits have 1 step."
    }


def test_findings_have_the_numbers_of_all_engines():
    found = of(OF_TWO_ENGINES)
    mean = "in the geometric mean of 2 queries"
    assert found["throughput"] == (
        f"At the best batch size, the rate is 12.00M/s with embedded and 4.24M/s with peer, {mean}."
    )
    assert found["workers"] == (
        "Relative to one worker, the speed is 1.00x with embedded (2 workers) and 1.00x with peer (2 workers), in the "
        "geometric mean of 6 cells."
    )
    assert found["state"] == f"A run adds 2.0 MB with embedded and 2.0 MB with peer, {mean}."


def test_a_mean_over_fewer_queries_is_marked():
    fewer = [each for each in OF_TWO_ENGINES if each.engine == "embedded" or each.query == "q04"]
    assert "3.00M/s with peer (over 1), in the geometric mean of 2 queries" in of(fewer)["throughput"]


def test_a_strip_of_workers_has_all_engines():
    text = page_of(OF_TWO_ENGINES)
    section = text.partition('<section id="workers">')[2].partition("</section>")[0]
    names = re.findall(r'<span class="name">([^<]+)</span>', section)
    assert len(names) == len({*names}) == 6
    assert section.count('class="point"') == 12


def test_coverage_counts_queries_and_has_the_reasons_of_gaps():
    refused = [
        record("q02", engine="duckdb", status="refused", problem="too hard\nmore"),
        record("q03", engine="duckdb", status="refused", problem="too hard"),
    ]
    records = [*RECORDS, *refused]
    assert (
        of(records)["coverage"]
        == "Of the 22 queries at scale factor 1, there are numbers for 3 with embedded and 2 with duckdb."
    )
    assert rows(records, "queries") == [
        ["embedded", "3 of 22", "18", "1", "0", "1", "0", "17"], ["duckdb", "2 of 22", "6", "0", "0", "0", "2", "18"],
    ]  # fmt: skip
    gaps = {(engine, reason): queries for engine, queries, reason in rows(records, "gaps")}
    assert gaps["duckdb", "refused: too hard"] == "q02 q03"
    assert gaps["embedded", "timeout of 600 s"] == "q21"
    assert gaps["embedded", f"wrong: {RECORDS[-2].problem}"] == "q22"


def test_a_filter_by_engine_finds_its_rows_by_the_short_name():
    text = page_of(OF_TWO_ENGINES)
    table = re.search(r'<details id="table-physical".*?</details>', text, re.DOTALL)[0]
    rows = re.findall(r'<tr data-query="(\w+)" data-engine="([^"]*)"><th[^>]*>([^<]*)', table)
    assert rows == [
        ("q01", "embedded", "q01"), ("q04", "embedded", "q04"),
        ("q01", "peer=exec:./peer", "q01 peer"), ("q04", "peer=exec:./peer", "q04 peer"),
    ]  # fmt: skip


def test_refusals_are_no_failures():
    refused = [
        record(query, 1, size, engine="peer=exec:./it", external=PEER, status="refused", problem=why)
        for query, size, why in (("q02", 1, "no maximum"), ("q02", 1000, "no maximum"), ("q15", 1, "no views\nmore"))
    ]
    found = of([*RECORDS[:2], *refused])
    assert "problems" not in found
    assert found["refusals"] == "Of 5 cells, 3 are refused: 3 by peer."
    assert rows([*RECORDS[:2], *refused], "refused") == [
        ["peer", "q02", "2", "no maximum"], ["peer", "q15", "1", "no views"],
    ]  # fmt: skip
    mixed = of([*refused, record("q01", status="wrong")])
    assert mixed["problems"] == "Of 4 cells, 1 has failed: 1 wrong."


def test_consistency_counts_checks_and_streams_with_one_digest():
    records = [
        *OF_TWO_ENGINES,
        record("q01", 100_000, 1, engine="duckdb"),
        record("q04", engine="duckdb", status="wrong"),
    ]
    assert of(records)["consistency"] == (
        "25 of 25 cells with numbers have a verified answer, 0 of 4 change streams of several engines have one "
        "digest, and 1 cell is wrong or failed."
    )
    agreeing = [record(digest="same"), record(engine="spark", digest="same", verified="digest")]
    assert rows(agreeing, "checks") == [
        ["embedded", "stream", "1", "1", "0", "0", "1 of 1", "0", "0"],
        ["spark", "stream", "1", "0", "1", "0", "1 of 1", "0", "0"],
    ]
    assert rows(records, "checks")[1] == ["duckdb", "answers", "2", "1", "0", "0", "-", "1", "0"]


def test_the_suite_of_coverage_is_part_of_both_sections():
    graded = table_record(
        "q01 peer", {"grade": [3], "recomputed": [0], "compared": [9]}, suite="coverage", dataset="SF 0.1",
        table="coverage", cell="x",
    )  # fmt: skip
    assert rows(RECORDS, "coverage-sf-0-1", [graded]) == [["q01", "maintained, declared"]]
    assert rows(RECORDS, "consistency-sf-0-1", [graded])[0][:3] == ["peer", "at every logical time", "1"]


def test_a_certificate_of_growth_replaces_what_an_engine_declares():
    certified = [*growths("q01", "peer", 1.0), *growths("q04", "peer", 0.04)]
    declared, measured_found = page_of(OF_TWO_ENGINES), page_of(OF_TWO_ENGINES, certified)
    assert "No engine recomputes: embedded and peer maintain their answers." in declared
    assert "peer, for q01, recomputes: it runs the query again after each batch." in measured_found
    assert findings(measured_found)["growth"] == "Of 2 certificates, 1 says recomputed and 1 says maintained."
    graded = [
        table_record(
            f"{query} peer", {"grade": [3], "recomputed": [0], "compared": [9]}, suite="coverage", dataset="SF 0.1",
            table="coverage", cell=query,
        )
        for query in ("q01", "q04", "q05")
    ]  # fmt: skip
    assert rows(OF_TWO_ENGINES, "coverage-sf-0-1", [*certified, *graded]) == [
        ["q01", "recomputed"], ["q04", "maintained"], ["q05", "maintained, declared"],
    ]  # fmt: skip


def test_kills_are_counted_and_second_queries_are_timed():
    found = of([], [
        kill("q03 window:500 apply mine", "once"), kill("q03 window:500 snapshot mine", "right"),
        kill("q05 window:500 apply mine", "twice"), second("q03 q05 mine"), second("q03 q10 mine"),
    ])  # fmt: skip
    assert found["recovery"] == "In 2 of 3 rows of the table no change was lost or came twice."
    assert found["attach"] == "The first answers of 2 second queries take 250 ms to 250 ms."
