"""Every table and every section of the report can be made of any records: few or none, of one engine, all failed."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.harness.records import changed
from support.paths import ROOT

from deltamark.harness.benchmarks.cell import THROUGHPUT
from deltamark.harness.console.table import FORMATS
from deltamark.harness.report.page import ReportData, page
from deltamark.harness.report.sections.history import history_page
from deltamark.harness.results import store
from deltamark.harness.results.record import MEASURING, EngineInfo
from deltamark.harness.suites.registry import SUITES
from deltamark.harness.tables.history import commit_history, relation
from deltamark.harness.tables.tpch import growth

REFERENCE = ROOT / "results" / "reference"
STORED, SESSIONS = store.read(REFERENCE).records, store.sessions(REFERENCE)
QUERIES = [record for record in STORED if record.suite == THROUGHPUT]
OTHERS = [record for record in STORED if record.suite != THROUGHPUT]

NO_NUMBERS = {"seconds": [], "latency": {}, "problem": "the first line\nthe second"}
BATCHES = [{}, {"logical": 1, "physical": 1}, {"logical": 1000, "physical": 100}, {"logical": 10**6, "physical": 1}]
PROGRAM = {"engine": "mine=exec:./mine", "external": EngineInfo("Mine 1", "digest", "stream")}
ENGINES = [
    {"engine": "embedded"}, {"engine": "duckdb"}, {"engine": "spark"}, {"engine": "spark-sql"}, PROGRAM,
    {"engine": "exec:./it --slow", "external": EngineInfo("It 2", "digest", "answers", maintains=False)},
]  # fmt: skip
MORE = [
    *({"status": status, **NO_NUMBERS, "limit": 9.0} for status in ("ok", "wrong", "failed", "timeout", "refused")),
    {"workload": "window:9"}, {"workload": "a-later-kind:1"}, {"workers": 2},
    {"variant": "other", "is_default": False}, {"measuring": MEASURING + 1}, {"sf": "0.1"}, {"fully_timed": False},
    {"commit": "c0ffee"}, {"commit": "c0ffee+", "session": "unknown"}, {"commit": "unknown"},
    {"state_rows": 0, "state_bytes": 0, "peak_bytes": 0, "changes": 0, "digest": "", "verified": ""},
]  # fmt: skip
"""Changes of a stored record."""


@st.composite
def queries(draw):
    """Draw records that have some changes in common: mostly their batches and their engine."""
    common = [draw(st.sampled_from([*([each] for each in values), values])) for values in (BATCHES, ENGINES)]
    more = draw(st.lists(st.sampled_from(MORE), max_size=2))
    changes = st.tuples(*map(st.sampled_from, common), *(st.sampled_from([{}, each]) for each in more))
    drawn = draw(st.lists(st.tuples(st.sampled_from(QUERIES), changes), max_size=5))
    return [checked(record, *of_record) for record, of_record in drawn]


def checked(record, *changes):
    for each in changes:
        record = changed(record, **each)
    record.check()
    return record


@st.composite
def others(draw):
    """Draw records of the other suites, some of which have failed."""
    drawn = draw(st.lists(st.tuples(st.sampled_from(OTHERS), st.booleans()), max_size=9))
    failed = {"status": "failed", "problem": "why", "figures": {}}
    return [changed(record, **failed) if has_failed else record for record, has_failed in drawn]


def of_an_engine(*changes):
    return [checked(record, PROGRAM, *changes) for record in QUERIES[:2]]


@settings(max_examples=8)
@given(queries(), others())
@example(of_an_engine({"logical": 1000, "physical": 100}), [])
@example(of_an_engine({"status": "wrong", **NO_NUMBERS}), [])
@example([checked(QUERIES[0], {"measuring": MEASURING + 1})], [])
@example([], [])
def test_the_report_and_all_tables_can_be_made_of_any_records(of_queries, of_others):
    report = page(ReportData([each for each in of_queries if each.sf == "1"], SESSIONS, "m", "1", of_others))
    assert not re.search(r">[^<]*\b(nan|inf)\b[^<]*<", re.sub("<s(cript|tyle)>.*?</", "", report, flags=re.DOTALL))
    history = commit_history(relation([(of_queries, SESSIONS)]), {})
    if history.cells:
        history_page(history)
    tables = [table for table in [growth(of_queries)] if table]
    for suite in SUITES.values():
        tables += [*suite.tables([*of_queries, *of_others]), *suite.summary([*of_queries, *of_others])]
    assert all(write(table) for write in FORMATS.values() for table in tables)
