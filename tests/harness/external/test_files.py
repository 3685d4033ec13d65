"""The files of a program are read and removed in its directory alone, and impossible content is an error."""

from __future__ import annotations

import datetime as dt
import os
import re
from contextlib import closing
from decimal import Decimal

import pyarrow as pa
import pytest

from deltamark.dataflow.arrow_values import ARROW_TYPES
from deltamark.dataflow.types import (
    LARGEST,
    NULL,
    TEXT,
    TIME,
    Field,
    Schema,
    code_type,
    integer,
    interval_type,
    timestamp_type,
)
from deltamark.harness.engines.external.columns import (
    answer_in,
    changes_in,
    selected_columns,
    stored_columns,
    stored_in,
)
from deltamark.harness.engines.external.program import FileDirectory

ROWS = pa.table({"n": [1, 2]})


@pytest.fixture
def directory():
    with closing(FileDirectory()) as made:
        yield made
    assert not made.path.exists()


def write(path, table=ROWS):
    with pa.ipc.new_file(str(path), table.schema) as file:
        file.write_table(table)


def test_a_file_is_read_and_removed(directory):
    write(directory.path / "rows.arrow")
    assert directory.take("rows.arrow") == ROWS
    assert not list(directory.path.iterdir())


def test_the_rows_of_a_file_stay_if_the_program_changes_it_later(directory):
    path = directory.path / "rows.arrow"
    write(path)
    with path.open("r+b") as kept:
        taken = directory.take("rows.arrow")
        kept.truncate(0)
        assert taken == ROWS


@pytest.mark.parametrize("name", ["../rows.arrow", "{outside}/rows.arrow", "", ".", "..", "below/rows.arrow", "rows\0"])
def test_only_a_name_in_the_directory_is_a_file(directory, tmp_path, name):
    outside = [tmp_path / "rows.arrow", directory.path.parent / "rows.arrow", directory.path / "below" / "rows.arrow"]
    outside[2].parent.mkdir()
    for path in (outside[0], outside[2]):
        write(path)
    with pytest.raises((ValueError, OSError)):
        directory.take(name.format(outside=tmp_path))
    assert outside[0].exists()
    assert outside[2].exists()


def link_outside(path):
    write(path.parent / "other.arrow")
    path.symlink_to("other.arrow")


def truncated(path):
    write(path)
    os.truncate(path, path.stat().st_size - 8)


def huge(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


def wrong_text(path):
    array = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    write(path, pa.table({"text": array}))


def wrong_index(path):
    words = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["a"]), safe=False)
    write(path, pa.table({"word": words}))


FILES = {
    "is missing": (lambda _: None, "No such file"),
    "is empty": (lambda path: path.touch(), "too small"),
    "is no Arrow file": (lambda path: path.write_bytes(b"0" * 1000), "Not an Arrow file"),
    "is truncated": (truncated, "Not an Arrow file"),
    "is larger than the memory": (huge, "a file of 1099511627776 bytes, with"),
    "is a link": (link_outside, "symbolic links"),
    "is a directory": (lambda path: path.mkdir(), "not a regular file"),
    "is a pipe without a writer": (os.mkfifo, "not a regular file"),
    "has text that is not UTF-8": (wrong_text, "Invalid UTF8"),
    "has an index without a word": (wrong_index, "out of bounds"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FILES)
def test_a_wrong_file_is_an_error(directory, fault):
    make, message = FILES[fault]
    make(directory.path / "rows.arrow")
    with pytest.raises((ValueError, OSError), match=message):
        directory.take("rows.arrow")


def test_a_directory_that_the_program_has_removed_is_an_error(directory):
    directory.path.rmdir()
    with pytest.raises(FileNotFoundError):
        directory.write("1.arrow", ROWS.to_batches()[0])
    with pytest.raises(FileNotFoundError):
        directory.take("rows.arrow")


def test_no_file_of_the_program_is_overwritten(directory, tmp_path):
    (directory.path / "1.arrow").symlink_to(tmp_path / "other")
    with pytest.raises(FileExistsError):
        directory.write("1.arrow", ROWS.to_batches()[0])
    assert not (tmp_path / "other").exists()


TYPES = {
    "int64": pa.int64(), "decimal(2)": pa.decimal128(15, 2), "date32": pa.date32(), "double": pa.float64(),
    "string": pa.string(), "timestamp": pa.timestamp("us"), "time": pa.time64("us"), "interval": pa.duration("us"),
}  # fmt: skip
VALUES = {
    "int64": 1, "decimal(2)": Decimal("0.50"), "date32": dt.date(1994, 1, 1), "double": 0.5, "string": "a",
    "timestamp": dt.datetime.fromisoformat("1994-01-01T01:30:00"), "time": dt.time(1, 30), "interval": dt.timedelta(1),
}  # fmt: skip
ALIKE = ({"int64", "decimal(2)", "double"}, {"date32", "timestamp"})


@pytest.mark.parametrize("actual", TYPES)
@pytest.mark.parametrize("expected", TYPES)
def test_values_of_another_type_are_an_error_that_names_both(expected, actual):
    table = pa.table({"x": pa.array([VALUES[actual], None], TYPES[actual])})
    if expected == actual or any({expected, actual} <= each for each in ALIKE):
        assert answer_in(table, [("n", expected)])["n"].to_pylist() == [VALUES[actual], None]
        return
    with pytest.raises(ValueError, match=re.escape(f"column n is {TYPES[actual]}") + f".*not {re.escape(expected)}"):
        answer_in(table, [("n", expected)])


def changes(time=(3,), diff=(1,), **columns):
    return pa.table({"time": list(time), "diff": list(diff), **(columns or {"n": [7]})})


def doubtful(*values, type_):
    return changes(time=[3] * len(values), diff=[1] * len(values), n=pa.array(values, type_))


CHANGES = {
    "a column too many": (changes(n=[7], more=[7]), "the file has the columns time, diff, n, more, not time, diff, n"),
    "a column too few": (changes().drop_columns(["n"]), "the file has the columns time, diff, not"),
    "a time before the batch": (changes(time=[2]), "changes at times 2 to 2, but the batches have times 3 to 9"),
    "a time after the batch": (changes(time=[10]), "changes at times 10 to 10, but the batches have times 3 to 9"),
    "diff 0": (changes(diff=[0]), "a change with diff 0"),
    "no diff": (changes(diff=pa.array([None], pa.int64())), "column diff is int64 with 1 NULL"),
    "times that are no integers": (changes(time=[3.0]), "column time is double with 0 NULL"),
    "diffs of 32 bits": (changes(diff=pa.array([1], pa.int32())), "column diff is int32 with 0 NULL"),
    "a date that no calendar has": (
        changes(n=pa.array([10**9], pa.int32()).cast(pa.date32())), "column n is date32.*, not int64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", CHANGES)
def test_impossible_changes_are_an_error(fault):
    table, message = CHANGES[fault]
    with pytest.raises(ValueError, match=message):
        changes_in(table, [("n", "int64")], 2, 9)


def test_a_date_that_no_calendar_has_is_an_error():
    days = pa.array([10**9], pa.int32())
    with pytest.raises(ValueError, match="column n has a date outside the years 1 to 9999"):
        answer_in(pa.table({"n": days.cast(pa.date32())}), [("n", "date32")])


def test_times_may_be_in_any_order_and_columns_may_have_any_names():
    schema = Schema((Field("time", integer(0, 9).or_null()), Field("diff", TEXT)), 9)
    table = pa.table([[9, 3, 6], [1, -1, 2], [1, 2, None], ["a", "b", "a"]], names=["a", "b", "a", "d"])
    stored = stored_in(changes_in(table, [("time", "int64"), ("diff", "string")], 2, 9), schema)
    assert stored.time.tolist() == [3, 6, 9]
    assert stored.diff.tolist() == [-1, 2, 1]
    assert stored.columns["diff"].tolist() == ["b", "a", "a"]


WORDS = code_type(("a", "b"))
NULL_WORD = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([None], pa.string()))
INEXACT = {
    "NULL": (integer(0, 9), pa.array([None], pa.int64()), "column n has NULL"),
    "NULL in a dictionary": (WORDS, NULL_WORD, "column n has NULL"),
    "a rounded number": (integer(0, 9), pa.array([7.0]), "column n is double, not int64"),
    "another scale": (integer(0, 9, scale=2), pa.array([Decimal("0.5")]), r"column n is decimal128\(1, 1\), not"),
    "an unknown word": (WORDS, pa.array(["c"]), "column n has a value that does not fit into code"),
    "the number that stands for NULL": (integer(0, 9).or_null(), pa.array([-LARGEST - 1]), "does not fit into int"),
    "a number of more than 64 bits": (
        integer(0, 9, scale=2), pa.array([Decimal(2**64)], pa.decimal128(38, 2)), r"does not fit into decimal\(2\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", INEXACT)
def test_an_exact_stream_has_exact_values(fault):
    type_, array, message = INEXACT[fault]
    with pytest.raises(ValueError, match=message):
        stored_in(changes_in(changes(n=array), [("n", type_name(type_))], 2, 9), Schema((Field("n", type_),), 9))


TIMES = {
    "timestamp": timestamp_type(0, 10**12), "timestamptz": timestamp_type(0, 10**12, zoned=True), "time": TIME,
    "interval": interval_type(0, 10**12),
}  # fmt: skip


@pytest.mark.parametrize("kind", TIMES)
def test_an_exact_stream_has_times_in_microseconds(kind):
    schema = Schema((Field("n", TIMES[kind].or_null()),), 9)
    assert stored_columns(schema) == selected_columns(schema) == [("n", kind)]
    array = pa.array([5_400_000_001, None], pa.int64())
    exact = doubtful(*array.cast(ARROW_TYPES[kind]).to_pylist(), type_=ARROW_TYPES[kind])
    assert stored_in(changes_in(exact, [("n", kind)], 2, 9), schema).columns["n"].tolist() == [5_400_000_001, NULL]
    for other in (array, array.cast(pa.timestamp("ns")), array.cast(pa.duration("ns"))):
        with pytest.raises(ValueError, match=f"column n is .*, not {kind}"):
            stored_in(changes_in(doubtful(*other.to_pylist(), type_=other.type), [("n", kind)], 2, 9), schema)


def type_name(type_):
    return "string" if type_.kind == "code" else f"decimal({type_.scale})" if type_.scale else "int64"
