"""Records are read unchanged, by the harness and by DuckDB, after crashes and despite a second writer."""

from __future__ import annotations

import json

import duckdb
import pytest
from msgspec.structs import replace
from support.harness.temporary_query import temporary_query

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.main import main
from deltamark.harness.measure.cell import Cell
from deltamark.harness.results import store
from deltamark.harness.results.record import SPREAD, Origin, QueryRecord, blank_query_record, from_line

ORIGIN = Origin("code", "versions", "commit", "session")


def record(name="q01", **changes):
    blank = blank_query_record(Cell(name, "1", logical=1, physical=1000), 0, data="data", origin=ORIGIN)
    numbers = {"seconds": [0.5, 0.25], "tuples": 100, "batches": 10, "latency": dict.fromkeys(SPREAD, 0.1)}
    return replace(blank, requested_runs=3, **numbers, **changes)


def test_a_record_survives_its_line():
    made = record()
    (line,) = made.lines
    assert from_line(QueryRecord, line) == made
    assert made.rate == 400
    assert made.variant == "data"


def test_keys_name_what_a_number_depends_on():
    cell = Cell("q01", "1", physical=1000)
    keys = {
        blank_query_record(each, sample, data=data, origin=origin).key
        for each in (cell, cell.but(logical=10), cell.but(workers=2), cell.but(variant="diffs"), cell.but(sf="10"))
        for sample in (0, 5)
        for data, origin in (("data", ORIGIN), ("data", replace(ORIGIN, code="other")), ("other", ORIGIN))
    }
    assert len(keys) == 30
    one, same = (
        blank_query_record(each, 0, data="data", origin=origin)
        for each, origin in ((cell, ORIGIN), (cell.but(variant="data"), replace(ORIGIN, commit="other")))
    )
    assert one.key == same.key


def test_lines_of_other_versions_are_counted_and_left_out(tmp_path, capsys):
    lines = [*record().lines, json.dumps({"version": 0, "query": "q01"}).encode()]
    records, foreign = store.read_lines(lines, tmp_path, QueryRecord)
    assert (len(records), foreign) == (1, 1)
    (tmp_path / store.RECORDS).write_bytes(b"\n".join([*lines, b""]))
    assert main(["tables", "SF=1", f"RESULTS={tmp_path.parent}", f"MACHINE={tmp_path.name}"]) == 0
    assert "1 records of other versions are not comparable, and left out: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["tables", "report"])
def test_records_of_a_removed_query_are_shown(tmp_path, capsys, command):
    with store.writing(tmp_path / "m") as writer:
        writer.add(record())
        with temporary_query(tmp_path) as name:
            writer.add(record(name))
    assert main([command, "SF=1", f"RESULTS={tmp_path}", "MACHINE=m"]) == 0
    shown = capsys.readouterr().out if command == "tables" else (tmp_path / "m" / "report.html").read_text()
    assert name in shown


def test_a_line_cut_off_is_left_out_and_repaired(tmp_path):
    with store.writing(tmp_path) as writer:
        writer.add(record())
    path = tmp_path / store.RECORDS
    path.write_text(path.read_text() + '{"version":1,"que')
    assert len(store.read(tmp_path).records) == 1
    with store.writing(tmp_path) as writer:
        writer.add(record("q02"))
    assert [each.query for each in store.read(tmp_path).records] == ["q01", "q02"]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    with pytest.raises(DeltamarkError, match=r"not a record: .*line 1"):
        store.read_lines([b"{", *record().lines], tmp_path, QueryRecord)


@pytest.mark.parametrize("lacking", [{"seconds": [0.0]}, {"tuples": 0}, {"batches": 0}, {"latency": {}}])
def test_a_record_whose_numbers_are_not_complete_is_refused(lacking):
    replace(record(), **{**lacking, "seconds": []}).check()
    with pytest.raises(ValueError, match="numbers need seconds, tuples and batches above 0, and latency"):
        replace(record(), **lacking).check()


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
            writer.add(record())
            writer.add(record("q02", status="timeout"))
    sql = f"SELECT query, tuples / list_min(seconds) FROM '{tmp_path}/*/records.jsonl' WHERE status = 'ok'"
    assert duckdb.sql(sql).fetchall() == [("q01", 400.0)] * 2
