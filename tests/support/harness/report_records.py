"""Records of a report: several runners and workloads, problems, and hostile texts."""

from __future__ import annotations

from dataclasses import replace

from msgspec import json
from support.harness.records import changed
from support.harness.suite_records import record as row_record

from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.report.page import ReportData, page
from deltamark.harness.results.record import Origin, blank_record

HOSTILE = "<script>fetch('//x')</script> \" ' & </style> -->"
FACTS = {
    "cpu": f"CPU {HOSTILE}", "cores": 2, "usable": 2, "memory_gb": 8, "caches": "", "system": "x", "limits": "none",
    "governor": "powersave", "load": 0.0,
}  # fmt: skip


def session(name):
    return {
        "session": name, "started": name, "machine": FACTS, "versions": "v", "java": "j", "commit": "c0ffee",
        "argv": HOSTILE,
    }  # fmt: skip


def record(query="q01", logical=1, physical=1000, seconds=0.5, **changes):
    cell = {name: changes.pop(name) for name in ("engine", "workload", "workers", "variant") if name in changes}
    origin = Origin("code", "versions", changes.pop("commit", "c0ffee"), changes.pop("session", "2026-01-01"))
    sample = changes.pop("sample", 20_000)
    empty = blank_record(
        Cell(query, "1", logical=logical, physical=physical, sample=sample, data="data", **cell), origin
    )
    fields = {
        "seconds": [seconds], "tuples": 6_000_000, "batches": 60, "state_rows": 9, "state_bytes": 2_000_000,
        "latency": {"p50": seconds / 90, "p95": seconds / 80, "p99": seconds / 70, "max": seconds / 60},
        "verified": "oracle",
    }  # fmt: skip
    return changed(empty, **(fields | changes))


RECORDS = [
    *(record(query, 1, size, 2 / size**0.5) for query in ("q01", "q04", "q15") for size in (1, 1000, 100_000)),
    *(record(query, size, 1, 1.0) for query in ("q01", "q04") for size in (1000, 100_000)),
    *(record(query, size, 1, 9.0, engine="duckdb", sample=15) for query in ("q01", "q04") for size in (1000, 100_000)),
    record("q01", 100_000, 1, 0.6, workers=2),
    record("q04", 1, 100_000, workload="window:100"),
    record("q15", 1, 100_000, variant="flat"),
    record("q04", 1, 1000, 0.4, session="2026-01-02", commit="decade"),
    record("q22", 1, 1000, status="wrong", problem=HOSTILE),
    record("q21", 1, 1000, status="timeout", limit=600.0),
]
LOADED = {
    f"{side}_{figure}": [2e6] for side in ("together", "alone") for figure in ("seconds", "rows", "bytes", "peak")
} | {"tuples": [9]}  # fmt: skip
TABLE_RECORDS = (
    row_record("1 x 1000", LOADED, suite="shared", dataset="SF 1", table="loads", cell="x"),
    row_record("1 x 10000", suite="shared", dataset="SF 1", table="loads", cell="y", status="wrong", problem=HOSTILE),
    row_record(
        "lineitem", {"rows": [2], "bytes": [9]}, suite="shared", dataset="SF 1", table="arrangements", cell="z",
        note=HOSTILE,
    ),
    row_record(
        "least", {"seconds": [1], "proposals": [2], "changes": [3]}, suite="graph", dataset="hub:9", table="hub"
    ),
)  # fmt: skip
SESSIONS = {name: session(name) for name in ("2026-01-01", "2026-01-02")}
REPORT = ReportData(RECORDS, SESSIONS, HOSTILE, "1", TABLE_RECORDS)
ON_SPARK = [
    *(record("q04", size, 1, 5.0, engine="spark", workers=2) for size in (100_000, 1_000_000)),
    record("q04", 100_000, 1, 4.0, engine="spark", workers=3),
    record("q04", 100_000, 1, 8.0, engine="spark-sql", workers=2, state_bytes=0),
]
_PAGES: dict[bytes, str] = {}


def page_of(records, table_records=()):
    """Return the page of some records. It is made once in a process, because it takes half a CPU second or more."""
    key = json.encode((records, table_records))
    if key not in _PAGES:
        _PAGES[key] = page(replace(REPORT, records=records, table_records=table_records))
    return _PAGES[key]
