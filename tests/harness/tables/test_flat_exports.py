"""The flat table has a row for each cell and a column for each field; CSV and Parquet agree."""

from __future__ import annotations

import io

import pyarrow.csv
import pyarrow.parquet
import pytest
from support.harness.export_records import WITH_NUMBERS, at_scale_factor, drawn_records, source
from support.manual import PAGES

from deltamark.harness.tables.exports import EXPORTS

PARQUET = EXPORTS["parquet"]
SCHEMA = pyarrow.parquet.read_schema(io.BytesIO(PARQUET.encode(source()).content))
TYPES = {field.name: field.type for field in SCHEMA}


def from_csv(content):
    options = pyarrow.csv.ConvertOptions(
        column_types=TYPES, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    return pyarrow.csv.read_csv(io.BytesIO(content), convert_options=options)


def tables(records):
    read_csv = from_csv(EXPORTS["csv"].encode(source(records)).content)
    return read_csv, pyarrow.parquet.read_table(io.BytesIO(PARQUET.encode(source(records)).content))


@pytest.mark.parametrize("seed", range(3))
def test_csv_and_parquet_agree(seed):
    of_csv, of_parquet = tables(drawn_records(seed))
    assert of_csv.equals(of_parquet)
    assert of_parquet.schema.names == SCHEMA.names


def test_rows_have_the_fields_of_records():
    _, table = tables([*WITH_NUMBERS, at_scale_factor("0.1", WITH_NUMBERS[0])])
    rows = {row["cell"]: row for row in table.to_pylist()}
    assert list(rows) == sorted(rows)
    three_runs, of_peer = (rows[WITH_NUMBERS[at].cell] for at in (0, 3))
    assert (three_runs["runs"], three_runs["seconds"], three_runs["cpu_seconds"]) == (3, 0.25, 0.3)
    assert (three_runs["seconds_median"], three_runs["seconds_max"]) == (0.5, 1.0)
    assert three_runs["tuples_per_second"] == 24_000_000
    assert three_runs["latency_p50_seconds"] == three_runs["latency_max_seconds"] == 0.25
    assert of_peer["engine"] == 'exec:a "b", c'
    assert (of_peer["engine_version"], of_peer["engine_digest"], of_peer["outside_seconds"]) == (
        "peer 1.2",
        "c0ffee",
        0.2,
    )
    assert {row["sf"] for row in rows.values()} == {0.1, 1.0}


def test_an_unknown_number_is_null():
    _, table = tables(WITH_NUMBERS[:1])
    (row,) = table.to_pylist()
    unknown = {name for name, value in row.items() if value is None}
    assert unknown == {
        "engine_version", "engine_digest", "engine_output", "cut_seconds", "outside_seconds",
        "untimed_seconds", "timed_cpu_seconds", "untimed_cpu_seconds", "state_rows", "state_bytes", "oracle_seconds",
        "control_seconds", "elapsed_seconds", "limit_seconds",
    }  # fmt: skip


def test_the_manual_names_all_columns():
    page = PAGES["docs/exports.md"]
    assert [name for name in SCHEMA.names if f"`{name}`" not in page] == []
