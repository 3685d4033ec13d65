"""Laws of data directories: each change of a file is one clear error, or makes no difference."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.harness.local_tasks import draw
from support.harness.mutants import mutants, same
from support.harness.tiny_data import tiny

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.graphs.make import directory_of, read_graph
from deltamark.datagen.make import Wanted
from deltamark.datagen.manifest import DIGEST, FILE, digest_of, folder_of, write_sealed
from deltamark.datagen.prebatch import write_arrow
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.cli.main import main
from deltamark.harness.system import machine

MEMBERS = folder_of("members", "lineitem")
EVERYTHING = {relation.name: [column.name for column in relation.columns] for relation in RELATIONS.values()}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tiny(tmp_path / "data", [1, 3, 2, 2, 1], 6).directory


def rows(dataset: Dataset) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of the feed."""
    feed = Feed(workload(dataset, "window:2"), EVERYTHING)
    found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in RELATIONS}
    for batch in feed.batches(3):
        for delta in batch:
            found[delta.relation] += zip(*(each.tolist() for each in delta.columns.values()), strict=True)
    return found


def write(path: Path, raw: Any, *, sealed: bool) -> None:
    if sealed and isinstance(raw, dict):
        raw = {**raw, DIGEST: digest_of(raw)}
    path.write_text(json.dumps(raw))


@pytest.mark.parametrize("sealed", [False, True])
def test_a_changed_manifest_is_an_error_or_leads_to_the_same_rows(directory, sealed):
    """With a corrected digest, the change shows in the structure, in the values of the files, or in fewer rows."""
    path = directory / FILE
    raw, expected = json.loads(path.read_text()), rows(Dataset.open(directory))
    for name, mutant in mutants(raw, every=24):
        write(path, mutant, sealed=sealed)
        try:
            found = rows(Dataset.open(directory))
        except DeltamarkError:
            continue
        assert all(set(found[each]) <= set(expected[each]) for each in expected), name
        assert sealed or same(mutant, raw), name


@pytest.mark.parametrize("sealed", [False, True])
def test_a_changed_manifest_of_a_graph_is_an_error_or_makes_no_difference(tmp_path, sealed):
    draw(tmp_path, ["rmat:4"])
    where = directory_of(tmp_path, graph("rmat:4"))
    path = where / FILE
    raw, (_, expected) = json.loads(path.read_text()), read_graph(where)
    for name, mutant in mutants(raw):
        write(path, mutant, sealed=sealed)
        try:
            _, found = read_graph(where)
        except DeltamarkError:
            continue
        assert found.equals(expected), name
        assert sealed or same(mutant, raw), name


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"null", b"[" * 100_000, b"1" * 5000])
def test_a_file_that_is_no_manifest_is_an_error(tmp_path, directory, content):
    draw(tmp_path, ["star:1"])
    where = directory_of(tmp_path, graph("star:1"))
    for each, read in ((directory, Dataset.open), (where, read_graph)):
        (each / FILE).write_bytes(content)
        with pytest.raises(DeltamarkError, match=f"unreadable.*{each.name}.*; move .* away"):
            read(each)


def test_a_directory_in_place_of_the_manifest_is_an_error(directory):
    (directory / FILE).unlink()
    (directory / FILE).mkdir()
    with pytest.raises(DeltamarkError, match=r"cannot read or write: .*manifest.json: Is a directory; give another"):
        Dataset.open(directory)


def narrow(directory: Path, column: str, bounds: list[Any]) -> None:
    raw = json.loads((directory / FILE).read_text())
    raw["relations"]["lineitem"]["bounds"][column] = bounds
    write_sealed(directory / FILE, raw)


@pytest.mark.parametrize("column", ["orderkey", "quantity", "shipdate"])
@pytest.mark.parametrize("end", [0, 1])
def test_a_value_outside_its_bounds_is_an_error_that_names_it(directory, column, end):
    low, high = Dataset.open(directory).manifest.relations["lineitem"].bounds[column]
    narrow(directory, column, [low + 1, high] if end == 0 else [low, high - 1])
    narrowed = Dataset.open(directory)
    value, bounds = (low, f"{low + 1} to {high}") if end == 0 else (high, f"{low} to {high - 1}")
    message = rf"lineitem/0000\d.arrow: {column} has the value {value}, outside its bounds {bounds}; move"
    for read in (
        rows,
        lambda dataset: dataset.table("lineitem"),
        lambda dataset: dataset.values("lineitem", column, range(9)),
    ):
        with pytest.raises(DeltamarkError, match=message):
            read(narrowed)


def test_a_query_over_narrowed_bounds_ends_with_the_error(tmp_path, capsys):
    """An engine that indexed arrays by such a value would read memory of others, or end with a segmentation fault."""
    directory = tiny(Wanted(tmp_path, Decimal("0.001")).directory, [1, 3, 2], 4).directory
    low, _ = Dataset.open(directory).manifest.relations["lineitem"].bounds["discount"]
    narrow(directory, "discount", [low, low])
    assert main(["answer", "q06", "SF=0.001", f"DATA={tmp_path}"]) == 2
    assert "discount has the value" in capsys.readouterr().err


def test_columns_that_are_not_read_are_not_checked(directory):
    low, high = Dataset.open(directory).manifest.relations["lineitem"].bounds["orderkey"]
    narrow(directory, "orderkey", [low, high - 1])  # which the last file has
    dataset = Dataset.open(directory)
    Feed(workload(dataset, "insert"), {"lineitem": ["partkey"]}).take(100)
    with pytest.raises(DeltamarkError, match=r"lineitem/00002.arrow: orderkey has the value"):
        Feed(workload(dataset, "insert"), {"lineitem": ["orderkey"]}).take(1)


def test_a_file_is_checked_once(directory, monkeypatch):
    checked = []
    monkeypatch.setattr(
        Dataset, "_check_values", lambda _, name, column, file, _batch: checked.append((name, column.name, file))
    )
    dataset = Dataset.open(directory)
    for _ in range(2):
        feed = Feed(workload(dataset, "window:2"), {"lineitem": ["orderkey", "comment"]})
        assert sum(len(delta.time) for batch in feed.batches(1) for delta in batch) == 9 + 6
    assert sorted(checked) == [("lineitem", column, file) for column in ("comment", "orderkey") for file in range(3)]


def replace(directory: Path, relation: str, batch: pa.RecordBatch) -> None:
    """Put another first file in place of a relation's, and enter it in the manifest."""
    chunk = write_arrow(directory, f"{relation}/00000.arrow", batch)
    raw = json.loads((directory / FILE).read_text())
    chunks = raw["members"]["lineitem"] if relation == MEMBERS else raw["relations"][relation]["chunks"]
    chunks[0] |= {"bytes": chunk.bytes, "mtime_ns": chunk.mtime_ns, "sha256": chunk.sha256}
    write_sealed(directory / FILE, raw)


def first_file(directory: Path, relation: str) -> pa.RecordBatch:
    return pa.ipc.open_file(str(directory / relation / "00000.arrow")).get_batch(0)


def with_column(batch: pa.RecordBatch, name: str, array: pa.Array) -> pa.RecordBatch:
    arrays = [array if each == name else batch.column(each) for each in batch.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def texts(ends: list[int]) -> pa.Array:
    offsets, data = np.array(ends, np.int32), b"x" * 20
    return pa.Array.from_buffers(pa.string(), len(ends) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


@pytest.mark.parametrize("ends", [[0, 5, 3, 9, 12], [0, 1, 2, 40, 20], [0, 1, -5, 3, 4]])
def test_texts_that_lie_elsewhere_are_an_error(directory, ends):
    replace(directory, "part", with_column(first_file(directory, "part"), "comment", texts(ends)))
    with pytest.raises(DeltamarkError, match=r"part/00000.arrow: the offsets of comment decrease or exceed"):
        rows(Dataset.open(directory))


def codes(indices: list[int], words: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(words), ordered=True, safe=False)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (codes([0, 1, 2, 3], ["ash", "birch", "cedar"]), "brand has the value 3, outside its bounds 0 to 2"),
        (codes([0, 1, -1, 2], ["ash", "birch", "cedar"]), "brand has the value -1, outside its bounds 0 to 2"),
        (codes([0, 1, 2, 3], ["ash", "birch", "cedar", "elm"]), "the dictionary of brand is not the one of 3 values"),
    ],
)
def test_codes_beyond_the_dictionary_are_an_error(directory, array, message):
    replace(directory, "part", with_column(first_file(directory, "part"), "brand", array))
    with pytest.raises(DeltamarkError, match=f"part/00000.arrow: {message}"):
        rows(Dataset.open(directory))


def test_a_dictionary_that_differs_between_files_is_an_error(directory):
    replace(
        directory, "part", with_column(first_file(directory, "part"), "brand", codes([0, 1, 2, 0], ["a", "b", "c"]))
    )
    with pytest.raises(DeltamarkError, match=r"part/00001.arrow: the dictionary of brand is not the one"):
        rows(Dataset.open(directory))


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([0, 1, 1000, 6], "its positions are not in order"),
        ([0, 4, 1, 6], "its positions are not in order"),
        ([-1, 1, 4, 6], "its positions are not in order"),
        ([1, 1, 4, 6], "its positions go from 1 to 9, not from 0 to 9"),
    ],
)
def test_positions_beyond_lineitem_are_an_error(directory, positions, message):
    batch = first_file(directory, MEMBERS)
    replace(directory, MEMBERS, with_column(batch, "first", pa.array(positions, pa.int64())))
    with pytest.raises(DeltamarkError, match=rf"{MEMBERS}/0000\d.arrow: {message}"):
        rows(Dataset.open(directory))


def test_a_file_with_other_rows_columns_or_missing_values_is_an_error(directory):
    batch = first_file(directory, "part")
    narrow_keys = batch.column("partkey").cast(pa.int32())
    narrow_schema = pa.schema([pa.field("partkey", pa.int32(), nullable=False), *list(batch.schema)[1:]])
    for other, message in (
        (batch.slice(1), r"its batches have \[3\] rows, not \[4\]"),
        (batch.select(batch.schema.names[1:]), "its columns are name"),
        (
            pa.RecordBatch.from_arrays([narrow_keys, *batch.columns[1:]], schema=narrow_schema),
            "its columns are partkey",
        ),
        (with_column(batch, "size", pa.array([1, 2, None, 4], pa.int64())), "1 values of size are missing"),
    ):
        replace(directory, "part", other)
        with pytest.raises(DeltamarkError, match=f"part/00000.arrow: {message}"):
            rows(Dataset.open(directory))


def test_a_vertex_outside_the_graph_is_an_error(tmp_path):
    draw(tmp_path, ["star:3"])
    where = directory_of(tmp_path, graph("star:3"))
    raw = json.loads((where / FILE).read_text())
    batch = first_file(where, "edges")
    for vertex in (-1, 7):
        src = np.array(batch.column("src").to_numpy())
        src[2] = vertex
        chunk = write_arrow(where, "edges/00000.arrow", with_column(batch, "src", pa.array(src)))
        raw["files"][0] |= {"bytes": chunk.bytes, "mtime_ns": chunk.mtime_ns, "sha256": chunk.sha256}
        write_sealed(where / FILE, raw)
        with pytest.raises(DeltamarkError, match=r"edges/00000.arrow: src has values from .*, outside 0 to 6"):
            read_graph(where)


def test_an_altered_file_of_a_graph_is_an_error(tmp_path):
    draw(tmp_path, ["star:3"])
    where = directory_of(tmp_path, graph("star:3"))
    path = where / "edges" / "00000.arrow"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DeltamarkError, match=r"not the one that was made: .*edges/00000.arrow: its digest is"):
        read_graph(where)


def test_the_digest_of_the_data_in_records_does_not_depend_on_file_times(directory):
    before, path = machine.data(directory), directory / FILE
    raw = json.loads(path.read_text())
    raw["members"]["lineitem"][0]["mtime_ns"] += 1
    write_sealed(path, raw)
    assert machine.data(directory) == before
    raw["generator"] = "another"
    write_sealed(path, raw)
    assert machine.data(directory) != before


def test_complete_data_is_read_from_a_directory_without_write_permission(directory):
    """Verifying corrects time stamps; on a read-only disk that fails without an error."""
    raw = json.loads((directory / FILE).read_text())
    for chunk in raw["members"]["lineitem"]:
        os.utime(directory / chunk["file"], ns=(0, 0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "utime", denied)
        Dataset.open(directory).verify(lambda *_: None)


def denied(*_: Any, **__: Any) -> None:
    raise PermissionError(13, "Permission denied")
