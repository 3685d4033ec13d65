"""Records are read unchanged, by the harness and by DuckDB, after crashes and despite a second writer."""

from __future__ import annotations

import json

import duckdb
import msgspec
import pytest
from support.harness.records import changed
from support.harness.temporary_query import temporary_query
from support.paths import ROOT

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import THROUGHPUT, Cell
from deltamark.harness.cli.main import main
from deltamark.harness.results import store
from deltamark.harness.results.record import (
    SPREAD,
    EngineInfo,
    Origin,
    Record,
    blank_record,
    of_queries,
    of_suites,
    upgraded,
)
from deltamark.harness.suites.plan import Effort, Plan

ORIGIN = Origin("code", "versions", "commit", "session")


def record(name="q01", **changes):
    blank = blank_record(Cell(name, "1", logical=1, physical=1000, data="data"), ORIGIN)
    numbers = {"seconds": [0.5, 0.25], "tuples": 100, "batches": 10, "latency": dict.fromkeys(SPREAD, 0.1)}
    return changed(blank, requested_runs=3, **numbers, **changes)


def test_a_record_survives_its_line():
    made = record()
    assert upgraded(msgspec.json.encode(made)) == made
    assert made.rate == 400
    assert made.variant == "data"


@pytest.mark.parametrize(
    ("suite", "dataset", "benchmark"),
    [
        ("coverage", "SF 0.1", "tpch"), ("coverage", "tpcds, SF 1", "tpcds"), ("shared", "SF 1 q03 q05", "tpch"),
        ("coverage", "a, SF b?keys=c:d,e:f, SF 1", "a, SF b?keys=c:d,e:f"), ("growth", "tpcds", "tpcds"),
        ("graph", "rmat:18", "tpch"), ("loops", "10 nodes, 100 edges, 1 roots", "tpch"),
    ],
)  # fmt: skip
def test_a_row_of_a_table_has_the_benchmark_of_its_dataset(suite, dataset, benchmark):
    made = Record(suite=suite, params={"dataset": dataset, "row": "q01"})
    assert made.benchmark == benchmark
    assert of_suites([made, record()], benchmark) == [made]


FIRST_VERSION = {
    "cpu": [0.5, 0.25], "latency": dict.fromkeys(SPREAD, 0.1), "trace": [[10, 0.1], [20, 0.15]], "whole": False,
    "once": 0.25, "compared": [3, 7], "state_rows": 0, "took": 3.0, "asked": 3, "at": "2026-01-01T00:00:00+00:00",
    "external": {"name": "Mine 1", "digest": "d", "output": "stream", "maintains": False, "session": True},
    "query": "q01", "sf": "1", "variant": "data", "default": False, "seconds": [0.5, 0.25], "tuples": 100, "batches": 2,
    "recomputed": True, "version": 1, "digest": "2 aa", "cell": "c", "key": "k", "measuring": 1,
}  # fmt: skip
"""A line of a record of TPC-H in version 1 of the format."""


def test_a_record_of_the_first_version_is_upgraded():
    found = upgraded(msgspec.json.encode(FIRST_VERSION))
    assert upgraded(msgspec.json.encode(found)) == found
    assert (found.best, found.rate, found.latency, found.fully_timed) == (0.25, 400, FIRST_VERSION["latency"], False)
    assert (found.trace_rows, found.trace_seconds, found.compared) == ([10, 20], [0.1, 0.15], [3, 7])
    assert (found.is_default, found.recomputed, found.oracle_seconds, found.requested_runs) == (False, 1, 0.25, 3)
    assert found.external == EngineInfo("Mine 1", "d", "stream", maintains=False, session=True)
    assert "state_rows" not in found.figures


DAMAGES = [
    {"tuples": 1.5}, {"tuples": -1}, {"tuples": 1 << 63}, {"logical": "1"}, {"sf": 1}, {"sf": "-1"}, {"query": None},
    {"seconds": [-1.0]}, {"seconds": "x"}, {"latency": [1]}, {"trace": [[1]]}, {"trace": [[-1, 2.0]]}, {"whole": "x"},
    {"external": {}}, {"external": 7}, {"default": 1}, {"status": "good"}, {"recomputed": "x"},
    {"compared": [1.5]}, {"engine_digest": 7}, {"engine_output": "rows"},
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_damaged_value_of_either_version_is_an_error_that_names_file_and_line(damage, tmp_path):
    ((name, value),) = damage.items()
    whole = msgspec.to_builtins(upgraded(msgspec.json.encode(FIRST_VERSION)))
    (part,) = [part for part in (whole["params"], whole["figures"], whole) if name in part][:1] or [None]
    damaged = [{**FIRST_VERSION, name: value}] if name in FIRST_VERSION else []
    if part is not None:
        part[name] = value if part is not whole["figures"] or isinstance(value, list) else [value]
        damaged.append(whole)
    for each in damaged:
        with pytest.raises(DeltamarkError, match=r"not a record: .*records.jsonl, line 2: "):
            store.read_lines(map(msgspec.json.encode, [FIRST_VERSION, each]), tmp_path / store.RECORDS)


@pytest.mark.parametrize("machine", ["reference", "peers", "sql", "workloads"])
def test_committed_cells_are_still_known_as_done(machine):
    """Today's cells have the names of committed records, and the keys that their code and versions gave them."""
    records = store.read(ROOT / "results" / machine).records
    for record in of_queries(records):
        cell = Cell(
            record.query, record.sf, record.workload, record.logical, record.physical, engine=record.engine,
            workers=record.workers, variant=record.variant, master="local[*]" * ("on local[*]" in record.cell),
            sample=record.sample, data=record.data,
        )  # fmt: skip
        origin = Origin(record.code, record.versions)
        blank = blank_record(cell, origin, record.external)
        assert (blank.cell, blank.key) == (record.cell, record.key)
        if record.status == "ok":
            assert blank.key in Plan([cell], records, origin, Effort(record.requested_runs, record.limit)).done
    for record in records:
        if record.suite != THROUGHPUT:
            origin = Origin(record.code, record.versions)
            part = record.cell.removeprefix(f"{record.suite} {record.dataset} {record.table}").strip()
            names = {"dataset": record.dataset, "table": record.table, "part": part}
            blank = blank_record(Cell("", "", goal=record.suite, data=record.data, **names), origin)
            assert (blank.cell, blank.key) == (record.cell, record.key)


def test_keys_name_what_a_number_depends_on():
    cell = Cell("q01", "1", physical=1000)
    keys = {
        blank_record(each.but(sample=sample, data=data), origin).key
        for each in (cell, cell.but(logical=10), cell.but(workers=2), cell.but(variant="diffs"), cell.but(sf="10"))
        for sample in (0, 5)
        for data, origin in (("data", ORIGIN), ("data", changed(ORIGIN, code="other")), ("other", ORIGIN))
    }
    assert len(keys) == 30
    one, same = (
        blank_record(each.but(data="data"), origin)
        for each, origin in ((cell, ORIGIN), (cell.but(variant="data"), changed(ORIGIN, commit="other")))
    )
    assert one.key == same.key


def test_lines_of_other_versions_are_counted_and_left_out(tmp_path, capsys):
    lines = [msgspec.json.encode(record()), json.dumps({"version": 0, "query": "q01"}).encode()]
    stored = store.read_lines(lines, tmp_path)
    assert (len(stored.records), stored.foreign) == (1, 1)
    (tmp_path / store.RECORDS).write_bytes(b"\n".join([*lines, b""]))
    assert main(["tables", "SF=1", f"RESULTS={tmp_path.parent}", f"MACHINE={tmp_path.name}"]) == 0
    assert "1 records of other versions are not comparable, and left out: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["tables", "report"])
def test_records_of_a_removed_query_are_shown(tmp_path, capsys, command):
    with store.writing(tmp_path / "m") as writer:
        writer.add([record()])
        with temporary_query(tmp_path) as name:
            writer.add([record(name)])
    assert main([command, "SF=1", f"RESULTS={tmp_path}", "MACHINE=m"]) == 0
    shown = capsys.readouterr().out if command == "tables" else (tmp_path / "m" / "report.html").read_text()
    assert name in shown


def test_a_line_cut_off_is_left_out_and_repaired(tmp_path):
    with store.writing(tmp_path) as writer:
        writer.add([record()])
    path = tmp_path / store.RECORDS
    path.write_text(path.read_text() + '{"version":1,"que')
    assert len(store.read(tmp_path).records) == 1
    with store.writing(tmp_path) as writer:
        writer.add([record("q02")])
    assert [each.query for each in store.read(tmp_path).records] == ["q01", "q02"]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    with pytest.raises(DeltamarkError, match=r"not a record: .*line 1"):
        store.read_lines([b"{", msgspec.json.encode(record())], tmp_path)


@pytest.mark.parametrize("lacking", [{"seconds": [0.0]}, {"tuples": 0}, {"batches": 0}, {"latency": {}}])
def test_a_record_whose_numbers_are_not_complete_is_refused(lacking):
    changed(record(), **{**lacking, "seconds": []}).check()
    with pytest.raises(ValueError, match="numbers need seconds, tuples and batches above 0, and latency"):
        changed(record(), **lacking).check()


def test_a_second_writer_gets_an_error_with_the_process_of_the_first(tmp_path):
    with (
        store.writing(tmp_path),
        pytest.raises(DeltamarkError, match=r"is being written to: process \d+; wait"),
        store.writing(tmp_path),
    ):
        pass


@pytest.mark.parametrize("above", [False, True])
def test_a_file_asks_to_stop_once(tmp_path, above):
    stop = (tmp_path if above else tmp_path / "machine") / store.STOP
    (tmp_path / "machine").mkdir()
    stop.touch()
    with store.writing(tmp_path / "machine") as writer:
        assert not writer.take_stop()
        stop.touch()
        assert writer.take_stop()
        assert not writer.take_stop()


def test_duckdb_reads_all_machines_in_one_statement(tmp_path):
    for machine in ("a", "b"):
        with store.writing(tmp_path / machine) as writer:
            writer.add([record(), record("q02", status="timeout")])
    rate = "figures.tuples[1] / list_min(figures.seconds)"
    sql = f"SELECT params.query, {rate} FROM '{tmp_path}/*/records.jsonl' WHERE status = 'ok'"
    assert duckdb.sql(sql).fetchall() == [("q01", 400.0)] * 2
