"""Laws of the stored data: its rows are the generator's, and it is made once."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from support.harness.tiny_data import tiny

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted, make_data
from deltamark.datagen.prebatch import chunk_slices, write_arrow
from deltamark.datagen.schema import scale_factor
from deltamark.datagen.tpch import RELATIONS, part_count
from deltamark.errors import DeltamarkError
from deltamark.harness.check.stored_data import check_source

ROWS_AT_SF_0_01 = {
    "customer": 1500, "lineitem": 60175, "nation": 25, "orders": 15000,
    "part": 2000, "partsupp": 8000, "region": 5, "supplier": 100,
}  # fmt: skip


def quiet(*_):
    pass


def test_relations_have_the_row_counts_of_tpch(sf001):
    assert {name: sf001.rows(name) for name in RELATIONS} == ROWS_AT_SF_0_01


@pytest.mark.parametrize("dataset", ["sf001", "chunked"])
def test_every_row_equals_the_row_of_the_generator(dataset, request):
    check_source(request.getfixturevalue(dataset), quiet)


@pytest.mark.parametrize("dataset", ["sf001", "chunked"])
def test_the_data_says_which_keys_its_rows_repeat(dataset, request):
    """At scale factor 0.001 a supplier has some parts twice."""
    data = request.getfixturevalue(dataset)
    repeated = {name: not data.is_unique(name, each.key) for name, each in RELATIONS.items() if each.key}
    assert {name: data.relations[name].repeats_keys for name in repeated} == repeated
    assert repeated["partsupp"] == (dataset == "chunked")


def test_the_source_check_names_the_first_wrong_row(chunked):
    copy = Dataset(chunked.directory, chunked.manifest)
    table = chunked.table("supplier")
    changed = table.column("acctbal").to_numpy().copy()
    changed[7] += 1
    wrong = table.set_column(table.schema.get_field_index("acctbal"), "acctbal", pa.array(changed))
    copy.table = lambda name: wrong if name == "supplier" else chunked.table(name)
    with pytest.raises(DeltamarkError, match=r"supplier differs from the generator: row 7 is 8\|Supplier#000000008"):
        check_source(copy, quiet)


@pytest.mark.parametrize("name", list(RELATIONS))
def test_the_manifest_bounds_each_column(sf001, name):
    for column in RELATIONS[name].columns:
        table = {"stored": sf001.table(name)}
        sql = f'SELECT min("{column.name}"), max("{column.name}") FROM stored'
        with duckdb.connect() as connection:
            connection.register("stored", table["stored"])
            assert sf001.manifest.relations[name].bounds[column.name] == connection.execute(sql).fetchone()


@pytest.mark.parametrize("name", list(RELATIONS))
def test_files_hold_chunks_of_the_stated_size_and_types(chunked, name):
    chunks = chunked.manifest.relations[name].chunks
    assert all(chunk.rows == chunked.manifest.chunk_rows for chunk in chunks[:-1])
    assert chunked.table(name).schema.equals(RELATIONS[name].arrow_schema, check_metadata=True)


def test_dictionaries_are_sorted_and_whole(chunked):
    for relation in RELATIONS.values():
        for column in relation.codes:
            values = chunked.table(relation.name).column(column)
            assert all(piece.dictionary.equals(values.chunk(0).dictionary) for piece in values.chunks)
            assert values.chunk(0).dictionary.to_pylist() == sorted(set(values.to_pylist()))


@pytest.mark.parametrize("dataset", ["sf001", "chunked"])
def test_the_stored_positions_of_first_lines_are_right(dataset, request):
    dataset = request.getfixturevalue(dataset)
    orders = dataset.rows("orders")
    first = dataset.first_members("lineitem", 0, orders + 1)
    keys = dataset.table("orders").column("orderkey").to_numpy()
    lines = dataset.table("lineitem").column("orderkey").to_numpy()
    assert first[0] == 0
    assert first[-1] == len(lines)
    assert np.array_equal(np.repeat(keys, np.diff(first)), lines)


def test_an_order_may_have_no_lines(tmp_path):
    assert tiny(tmp_path, [2, 0, 1, 0], 3).first_members("lineitem", 0, 5).tolist() == [0, 2, 2, 3, 3]


def test_existing_data_is_used_and_not_changed(data, monkeypatch):
    monkeypatch.setattr("deltamark.datagen.make.session", None)  # Spark is not even started
    wanted = Wanted(data, Decimal("0.01"))
    before = {path: path.stat().st_mtime_ns for path in wanted.directory.rglob("*")}
    _, made = make_data(wanted, quiet)
    assert not made
    assert {path: path.stat().st_mtime_ns for path in wanted.directory.rglob("*")} == before


def test_only_the_data_is_left(data):
    assert sorted(path.name for path in data.iterdir()) == [
        "tpch-sf0.001-tpchgen-cli-4.0.0-v4",
        "tpch-sf0.001-tpchgen-cli-4.0.0-v4-zipf1",
        "tpch-sf0.01-tpchgen-cli-4.0.0-v4",
        "tpch-sf0.01-tpchgen-cli-4.0.0-v4-zipf1",
    ]
    assert not [path for path in data.rglob("*") if path.is_file() and path.suffix not in (".arrow", ".json")]


@pytest.mark.parametrize("chunk_rows", [1, 3, 1000, 10**6])
def test_chunks_cover_the_parquet_files_in_order(tmp_path, chunk_rows):
    values, paths = np.arange(2000), []
    for part, piece in enumerate(np.split(values, [10, 10, 700])):
        paths.append(tmp_path / f"{part}.parquet")
        pa.parquet.write_table(pa.table({"v": piece}), paths[-1], row_group_size=64)
    found = []
    for chunk in chunk_slices(paths, chunk_rows):
        read = [
            pa.parquet.ParquetFile(source.path).read_row_groups(range(*source.groups)).slice(source.skip, source.rows)
            for source in chunk
        ]
        rows = pa.concat_tables(read)["v"].to_pylist()
        assert len(rows) == chunk_rows or len(found) + len(rows) == 2000
        found += rows
    assert found == values.tolist()


def test_an_arrow_file_appears_whole(tmp_path):
    batch = pa.RecordBatch.from_pydict({"v": list(range(10))})
    chunk = write_arrow(tmp_path, "x.arrow", batch)
    assert [path.name for path in tmp_path.iterdir()] == ["x.arrow"]
    assert chunk.bytes == (tmp_path / "x.arrow").stat().st_size


@pytest.mark.parametrize(
    ("sf", "cores", "parts"), [("0.01", 2, 1), ("0.25", 8, 1), ("1", 2, 4), ("1", 3, 6), ("10", 2, 40)]
)
def test_parts_are_a_multiple_of_the_cores_above_the_size_of_one_part(sf, cores, parts):
    assert part_count(Decimal(sf), cores) == parts


@pytest.mark.parametrize(("text", "value"), [("1", "1"), ("1.0", "1"), ("0.010", "0.01"), ("1e1", "10")])
def test_a_scale_factor_has_one_spelling(text, value):
    assert str(scale_factor(text)) == value


@pytest.mark.parametrize(
    "text", ["0", "0.0009", "-1", "nan", "inf", "one", "", "1e300", "1e-300", "100001", "0.0010000001", "9" * 5000]
)
def test_other_scale_factors_are_refused(text):
    with pytest.raises(DeltamarkError, match="not a scale factor"):
        scale_factor(text)
