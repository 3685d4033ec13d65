"""Records of a site: two machines, two engines, grades, and hostile texts."""

from __future__ import annotations

from msgspec.structs import replace
from support.harness.report_records import FACTS, HOSTILE, RECORDS, SESSIONS, record
from support.harness.suite_records import growths
from support.harness.suite_records import record as row_record

from deltamark.harness.tables.field import Field, MachineRecords

OTHER = {"2026-02-01": {**SESSIONS["2026-01-01"], "machine": {**FACTS, "cpu": "another CPU"}}}
ON_OTHER = [record("q01", 1, 1000, 0.001, engine="duckdb", session="2026-02-01")]
"""A record that would be the best one by far, on another machine."""


def grade(engine, query, figures, dataset="SF 0.1", **more):
    return row_record(
        f"{query} {engine}", figures, suite="coverage", dataset=dataset, table="coverage",
        cell=f"coverage {dataset} coverage {query} {engine}", **more,
    )  # fmt: skip


GRADES = [
    *(grade("embedded", query, {"grade": [3], "recomputed": [0], "compared": [9]}) for query in ("q01", "q04")),
    grade("chdb-views", "q01", {"grade": [0], "recomputed": [0], "compared": [9], "only_insertions": [1]}),
    grade("chdb-views", "q04", {}, note=f"refused: {HOSTILE}"),
]
OF_ANOTHER_BENCHMARK = [
    grade("embedded", "q96", {"grade": [0], "recomputed": [1], "compared": [9]}, "tpcds, SF 1"),
    grade("newcomer", "q96", {"grade": [3], "recomputed": [0], "compared": [9]}, "tpcds, SF 1"),
    *(replace(each, params={**each.params, "dataset": "tpcds"}) for each in growths("q96", "embedded", 1.0)),
]
"""Grades and certificates of a query of TPC-DS."""

MACHINES = [
    MachineRecords("one", [*RECORDS, *GRADES], SESSIONS),
    MachineRecords("two", ON_OTHER, OTHER),
]


def field():
    return Field(MACHINES)
