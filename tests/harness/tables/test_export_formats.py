"""Exports follow the schemas of their tools, and contain exactly the cells with numbers, in any order of records."""

from __future__ import annotations

import random

import pytest
from support.harness.export_records import ALL_RECORDS, WITH_NUMBERS, WITHOUT_NUMBERS, drawn_records, source
from support.harness.export_schemas import bencher_benchmarks, github_entries
from support.harness.records import changed

from deltamark.harness.results.record import latest
from deltamark.harness.tables.exports import EXPORTS

SINGLE_FILES = [name for name in EXPORTS if name != "asv"]


def metrics(record):
    return {
        "seconds": min(record.seconds), "latency-p99-seconds": record.latency["p99"],
        "state-bytes": record.state_bytes, "peak-bytes": record.peak_bytes,
    }  # fmt: skip


@pytest.mark.parametrize("name", SINGLE_FILES)
def test_an_export_does_not_depend_on_the_order_of_cells(name):
    shuffled = random.Random(1).sample(ALL_RECORDS, len(ALL_RECORDS))
    assert EXPORTS[name].encode(source()) == EXPORTS[name].encode(source(shuffled))


@pytest.mark.parametrize("name", SINGLE_FILES)
@pytest.mark.parametrize("seed", range(5))
def test_each_cell_is_exported_or_counted(name, seed):
    records = drawn_records(seed)
    encoded = EXPORTS[name].encode(source(records))
    cells = {record.cell: record.has_numbers for record in records}  # the last record of a cell decides
    assert encoded.cells == sum(cells.values())
    assert encoded.cells + sum(encoded.left_out.values()) == len(cells)


@pytest.mark.parametrize("name", SINGLE_FILES)
def test_a_cell_without_numbers_has_no_place_in_an_export(name):
    encoded = EXPORTS[name].encode(source())
    assert encoded.left_out == {"wrong": 1, "timeout": 1, "failed": 1}
    assert encoded.content == EXPORTS[name].encode(source(WITH_NUMBERS)).content
    for record in WITHOUT_NUMBERS:
        assert record.query.encode() not in encoded.content


@pytest.mark.parametrize("name", SINGLE_FILES)
def test_an_old_number_does_not_stand_in_for_a_failure(name):
    made = WITH_NUMBERS[0]
    encoded = EXPORTS[name].encode(source([made, changed(made, status="failed", seconds=[], finished_at="2026-01-02")]))
    assert (encoded.cells, encoded.left_out) == (0, {"failed": 1})


@pytest.mark.parametrize("name", SINGLE_FILES)
def test_records_whose_times_were_taken_in_another_way_are_left_out(name):
    encoded = EXPORTS[name].encode(source([changed(WITH_NUMBERS[0], measuring=0), WITH_NUMBERS[1]]))
    assert (encoded.cells, encoded.left_out) == (1, {"measured in another way": 1})


@pytest.mark.parametrize("seed", range(5))
def test_github_entries_and_bencher_measures_are_the_metrics_of_the_records(seed):
    records = drawn_records(seed)
    entries = github_entries(EXPORTS["github-action-benchmark"].encode(source(records)).content)
    benchmarks = bencher_benchmarks(EXPORTS["bencher"].encode(source(records)).content)
    expected = {
        (record.cell, name): value
        for record in latest(records) if record.has_numbers for name, value in metrics(record).items() if value
    }  # fmt: skip
    assert {tuple(entry["name"].rsplit(" ", 1)): entry["value"] for entry in entries} == expected
    of_bencher = {(cell, name): metric["value"] for cell, measures in benchmarks.items()
                  for name, metric in measures.items()}  # fmt: skip
    assert of_bencher == expected


def test_a_github_entry_has_the_fastest_run_and_the_range_of_all():
    entries = github_entries(EXPORTS["github-action-benchmark"].encode(source(WITH_NUMBERS[:1])).content)
    cell, extra = (
        WITH_NUMBERS[0].cell,
        "fastest of 3 runs\n6000000 tuples in 60 batches\nverified by oracle\ncommit c0ffee",
    )
    assert entries == [
        {"name": f"{cell} seconds", "unit": "seconds", "value": 0.25, "range": "0.25 to 1.0", "extra": extra},
        {"name": f"{cell} latency-p99-seconds", "unit": "seconds", "value": 0.25, "extra": extra},
        {"name": f"{cell} peak-bytes", "unit": "bytes", "value": 7_000_000, "extra": extra},
    ]


def test_a_bencher_metric_has_the_fastest_run_and_the_bounds_of_all():
    benchmarks = bencher_benchmarks(EXPORTS["bencher"].encode(source(WITH_NUMBERS[:1])).content)
    assert benchmarks == {
        WITH_NUMBERS[0].cell: {
            "seconds": {"value": 0.25, "lower_value": 0.25, "upper_value": 1.0},
            "latency-p99-seconds": {"value": 0.25},
            "peak-bytes": {"value": 7_000_000},
        }
    }
