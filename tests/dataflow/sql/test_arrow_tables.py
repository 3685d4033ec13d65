"""Inputs that are declared by the schemas of Arrow and of Parquet files, and batches of their values."""

from __future__ import annotations

import datetime as dt
import doctest
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamark.dataflow.language.collection import ROWS, source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.sql import arrow_tables, tables
from deltamark.dataflow.sql.arrow_tables import arrow_batch, arrow_changes, arrow_table, parquet_table
from deltamark.dataflow.sql.tables import DATES, sql_tables
from deltamark.dataflow.types import BOOL, EPOCH, LARGEST, NULL, SHORT, TEXT, code_type, date_type, decimal, integer
from deltamark.errors import DeltamarkError

DAY = dt.date(2001, 2, 3)
STRINGS = (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()))

ARROW_TYPES = {
    **dict.fromkeys(STRINGS, TEXT),
    pa.int8(): integer(-128, 127),
    pa.uint32(): integer(0, 2**32 - 1),
    pa.int64(): integer(-LARGEST, LARGEST),
    pa.uint64(): integer(0, LARGEST),
    pa.bool_(): BOOL,
    pa.decimal128(18, 3): integer(1 - 10**18, 10**18 - 1, scale=3),
    pa.decimal128(38, 2): integer(-LARGEST, LARGEST, scale=2),
    pa.decimal64(4, 1): integer(-9999, 9999, scale=1),
    pa.date32(): DATES,
    pa.date64(): DATES,
}

VALUES = {
    "id": pa.array([1, None, 3], pa.uint32()),
    "price": pa.array([Decimal("1.50"), Decimal("-2.25"), None]),
    "name": pa.array(["x", "y", None]).dictionary_encode(),
    "day": pa.array([DAY] * 3),
    "flag": pa.array([True, None, False]),
    "size": pa.array([-5, 5, 2], pa.int8()),
}
STORED = {
    "id": [1, NULL, 3], "price": [150, -225, NULL], "name": ["x", "y", None], "day": [(DAY - EPOCH).days] * 3,
    "flag": [1, NULL, 0], "size": [-5, 5, 2],
}  # fmt: skip


def like(made, name, types, rows, key=()):
    """Return whether an input has the columns, the rows and the key of one that is not declared in SQL."""
    other = source(name, types, rows, key)
    parts = [(each.node.name, each.schema.described(), each.node.key) for each in (made, other)]
    return parts[0] == parts[1]


def stored(batch):
    return {name: (values.to_pylist() if name == "name" else values.tolist()) for name, values in batch.columns.items()}


@pytest.mark.parametrize("type_", ARROW_TYPES, ids=str)
def test_a_type_has_the_values_of_its_arrow_type(type_):
    table = arrow_table("t", pa.schema([pa.field("a", type_, nullable=False), pa.field("b", type_)]), 9)
    assert like(table, "t", {"a": ARROW_TYPES[type_], "b": ARROW_TYPES[type_].or_null()}, 9)


@pytest.mark.parametrize(
    ("type_", "remedy"),
    [
        (pa.float16(), "store it as FLOAT"),
        (pa.decimal128(38, 20), "store it with at most 18 digits behind the point"),
        (pa.list_(pa.int64()), "or leave it out"),
        (pa.binary(), "or leave it out"),
    ],
    ids=str,
)
def test_other_types_are_errors_that_name_the_column(type_, remedy):
    with pytest.raises(DeltamarkError, match=f"a type that the engine does not have: t.a .*; .*{remedy}") as raised:
        arrow_table("t", pa.schema([("a", type_)]), 9)
    assert "cast" not in str(raised.value)  # one in the query would not help


def test_bounds_narrow_a_type():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("p", pa.decimal128(9, 2)), ("d", pa.date32())])
    bounds = {"a": (1, 9), "p": (Decimal("0.5"), Decimal("7.25")), "d": (DAY, DAY)}
    types = {"a": integer(1, 9), "p": decimal("0.5", "7.25", scale=2).or_null(), "d": date_type(DAY, DAY).or_null()}
    assert like(arrow_table("t", schema, 9, bounds), "t", types, 9)
    with pytest.raises(DeltamarkError, match="unknown column of t: b"):
        arrow_table("t", schema, 9, {"b": (1, 2)})


NOON = dt.datetime(2001, 2, 3, 12)  # noqa: DTZ001 (the type is refused, whatever the time)

WRONG_BOUNDS = [
    ("a", (1,), "not the bounds of a column: t.a: (1,); give (smallest, largest)"),
    ("a", 1, "not the bounds of a column: t.a: 1; give (smallest, largest)"),
    ("a", "12", "not the bounds of a column: t.a: '12'; give (smallest, largest)"),
    ("a", (None, 5), "not a bound of the column: t.a: None; give a whole number"),
    ("a", ("1", "2"), "not a bound of the column: t.a: '1'; give a whole number"),
    ("a", (1.5, 2.5), "not a bound of the column: t.a: 1.5; give a whole number"),
    ("a", (0, Decimal("2.5")), "not a bound of the column: t.a: Decimal('2.5'); give a whole number"),
    ("a", (0, Decimal("nan")), "not a bound of the column: t.a: Decimal('NaN'); give a whole number"),
    ("a", (5, 1), "bounds that no value is between: t.a: 5 to 1; exchange them"),
    ("a", (-(2**63), 0), "a value may not fit in 64 bits: t.a: -9223372036854775808; give narrower bounds"),
    (
        "p",
        (0, Decimal("0.125")),
        "not a bound of the column: t.p: Decimal('0.125'); give a Decimal with at most 2 digits",
    ),
    ("p", (0, Decimal("1e999999")), "a value may not fit in 64 bits: t.p: 1E+999999; give narrower bounds"),
    ("p", (0.5, 1), "not a bound of the column: t.p: 0.5; give a Decimal with at most 2 digits"),
    ("d", (DAY, NOON), "not a bound of the column: t.d: datetime.datetime(2001, 2, 3, 12, 0); give a date"),
    ("d", (DAY, 5), "not a bound of the column: t.d: 5; give a date"),
    ("s", (0, 1), "bounds of a text, a BOOLEAN or a DOUBLE: t.s; give bounds of numbers and dates"),
    ("b", (0, 1), "bounds of a text, a BOOLEAN or a DOUBLE: t.b; give bounds of numbers and dates"),
]


@pytest.mark.parametrize(("column", "bounds", "problem"), WRONG_BOUNDS)
def test_wrong_bounds_are_errors_that_name_the_column_and_the_value(column, bounds, problem, tmp_path):
    types = {"a": pa.int64(), "p": pa.decimal128(9, 2), "d": pa.date32(), "s": pa.string(), "b": pa.bool_()}
    schema = pa.schema(list(types.items()))
    pq.write_table(schema.empty_table(), tmp_path / "t.parquet")
    with pytest.raises(DeltamarkError) as error:
        arrow_table("t", schema, 9, bounds={column: bounds})
    assert problem in str(error.value)
    with pytest.raises(DeltamarkError) as error:
        parquet_table("t", tmp_path / "t.parquet", bounds={column: bounds})
    assert problem in str(error.value)


DECLARED = {
    "source": lambda rows: source("t", {"a": integer(0, 9)}, rows),
    "sql_tables": lambda rows: sql_tables("CREATE TABLE t (a INTEGER)", rows),
    "arrow_table": lambda rows: arrow_table("t", pa.schema([("a", pa.int64())]), rows),
}


@pytest.mark.parametrize("rows", ["x", -1, 1.5])
@pytest.mark.parametrize("declare", DECLARED.values(), ids=DECLARED)
def test_wrong_numbers_of_rows_are_errors_that_name_the_table(declare, rows):
    with pytest.raises(DeltamarkError, match=f"not a number of rows: t: {rows!r}; give the largest"):
        declare(rows)


def test_a_table_has_as_many_rows_as_its_data_unless_a_number_is_given(tmp_path):
    table = pa.table(VALUES)
    pq.write_table(table, tmp_path / "t.parquet")
    known = parquet_table("t", tmp_path / "t.parquet"), arrow_table("t", table), arrow_table("t", table.to_batches()[0])
    assert [each.schema.rows for each in known] == [3, 3, 3]
    assert arrow_table("t", table, 7).schema.rows == 7
    unknown = source("t", {"a": integer(0, 9)}), *sql_tables("CREATE TABLE t (a INTEGER)").values()
    assert {each.schema.rows for each in (*unknown, arrow_table("t", table.schema))} == {ROWS}


def test_a_table_of_changes_makes_equal_changes():
    table = arrow_table("t", pa.table(VALUES))
    types = {field.name: field.type for field in table.schema.fields}
    words = source("t", {**types, "code": code_type(("a", "b")).or_null(), "short": SHORT.or_null()})
    columns = {**VALUES, "code": pa.array(["b", None, "a"]), "short": pa.array([None, "", "xy"])}
    batch = arrow_batch(pa.table(columns), words.schema, np.array([1, 1, 2]), diff=-3)
    changes = arrow_changes(batch, words.schema)
    for name, values in columns.items():
        assert changes[name].to_pylist() == values.to_pylist()
    again = arrow_batch(changes, words.schema, changes["time"].to_numpy(), diff="diff")
    assert stored(again) == stored(batch)
    assert (again.time.tolist(), again.diff.tolist()) == ([1, 1, 2], [-3, -3, -3])


def test_a_table_of_changes_has_no_two_columns_with_the_same_name():
    schema = source("t", {"time": integer(0, 9)}).schema
    with pytest.raises(DeltamarkError, match=r"several columns with the same name: changes.time; rename all but one"):
        arrow_changes(arrow_batch(pa.table({"time": [1]}), schema, 0), schema)


def test_numbers_of_numpy_are_bounds():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    made = arrow_table("t", schema, np.int64(9), {"a": (np.int8(1), np.uint64(2))})
    assert repr(made) == repr(source("t", {"a": integer(1, 2)}, 9))


def test_two_columns_with_the_same_name_are_an_error(tmp_path):
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "t.parquet")
    for declare in (
        lambda: arrow_table("t", table.schema, 9),
        lambda: parquet_table("t", tmp_path / "t.parquet"),
    ):
        with pytest.raises(DeltamarkError, match=r"several columns with the same name: t.a; rename all but one"):
            declare()
    with pytest.raises(DeltamarkError, match=r"several columns with the same name: rows.a; rename all but one"):
        arrow_batch(table, source("t", {"a": integer(0, 9)}, 9).schema, 0)


def test_bounds_take_the_place_of_statistics(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"day": [DAY, dt.date(9999, 12, 31)], "size": [1, 2]}), path)
    made = parquet_table("t", path, bounds={"day": (DAY, dt.date(2099, 12, 31))})
    assert like(made, "t", {"day": date_type(DAY, dt.date(2099, 12, 31)), "size": integer(1, 2)}, 2)
    with pytest.raises(DeltamarkError, match="unknown column of t: da; did you mean day"):
        parquet_table("t", path, bounds={"da": (DAY, DAY)})
    with pytest.raises(DeltamarkError, match="unknown column of t: day"):
        parquet_table("t", path, columns=["size"], bounds={"day": (DAY, DAY)})


def test_statistics_of_parquet_files_narrow_types(tmp_path):
    table = pa.table(VALUES)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.slice(1, 1), tmp_path / "b.parquet")
    types = {
        "id": integer(1, 3).or_null(), "price": integer(-225, 150, scale=2).or_null(), "name": TEXT.or_null(),
        "day": date_type(DAY, DAY), "flag": BOOL.or_null(), "size": integer(-5, 5),
    }  # fmt: skip
    made = parquet_table("t", [tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert like(made, "t", types, 4)
    some = parquet_table("t", tmp_path / "a.parquet", rows=7, columns=["size"], key="size")
    assert like(some, "t", {"size": integer(-5, 5)}, 7, key="size")


def test_types_alone_give_bounds_without_statistics(tmp_path):
    pq.write_table(pa.table(VALUES), tmp_path / "t.parquet", write_statistics=False)
    assert parquet_table("t", tmp_path / "t.parquet") == arrow_table("t", pa.table(VALUES).schema, 3)


@pytest.mark.parametrize("day", [-800_000, 3_000_000])
def test_a_date_that_python_does_not_have_is_no_bound(day, tmp_path):
    table = pa.table({"day": pa.array([day, None], pa.int32()).cast(pa.date32())})
    pq.write_table(table, tmp_path / "t.parquet")
    declared = parquet_table("t", tmp_path / "t.parquet")
    assert like(declared, "t", {"day": DATES.or_null()}, 2)
    with Dataflow(declared) as dataflow, pytest.raises(DeltamarkError, match="day"):
        dataflow.feed({"t": arrow_batch(table, declared.schema, 0)})


@pytest.mark.parametrize("form", ["batch", "chunks", "slice", "file"])
def test_a_batch_has_the_values_of_its_columns(form, tmp_path):
    table = pa.table(VALUES)
    pq.write_table(table, tmp_path / "t.parquet")
    data = {
        "batch": table.to_batches()[0],
        "chunks": pa.concat_tables([table.slice(0, 1), table.slice(1), table.slice(0, 0)]),
        "slice": pa.concat_tables([table, table]).combine_chunks().slice(3),
        "file": pq.read_table(tmp_path / "t.parquet"),
    }[form]
    batch = arrow_batch(data, parquet_table("t", tmp_path / "t.parquet").schema, 4)
    assert stored(batch) == STORED
    assert (batch.time.tolist(), batch.diff.tolist()) == ([4] * 3, [1] * 3)


def test_a_column_can_have_the_weights():
    table = pa.table({"a": [1, 2], "weight": pa.array([1, -1], pa.int8())})
    schema = source("t", {"a": integer(0, 9)}, 9).schema
    batch = arrow_batch(table, schema, np.array([3, 5]), diff="weight")
    assert (batch.time.tolist(), batch.diff.tolist(), list(batch.columns)) == ([3, 5], [1, -1], ["a"])
    assert arrow_batch(table, schema, 0, diff=-1).diff.tolist() == [-1, -1]
    with pytest.raises(DeltamarkError, match="unknown column of weights: wait; did you mean weight"):
        arrow_batch(table, schema, 0, diff="wait")
    with pytest.raises(DeltamarkError, match="missing values: weight: 1 of them"):
        arrow_batch(pa.table({"weight": pa.array([1, None])}), schema, 0, diff="weight")
    with pytest.raises(DeltamarkError, match="values that a column cannot have: weight: double"):
        arrow_batch(pa.table({"weight": [1.0]}), schema, 0, diff="weight")


def test_words_become_codes_and_short_texts():
    types = {"code": code_type(("a", "b")), "short": SHORT}
    with Dataflow(source("t", types, 9).count(by=("code", "short"))) as dataflow:
        table = pa.table({"code": ["b", "a"], "short": ["xy", ""]}).take([0, 1, 0])
        changes = dataflow.feed({"t": arrow_batch(table, source("t", types, 9).schema, 0)})
    assert sorted(zip(changes.columns["code"].tolist(), changes.columns["count"].tolist(), strict=True)) == [
        (0, 1), (1, 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "values", "problem"),
    [
        (integer(0, 9), [1, None], "missing values: a: 1 of them; declare the column as nullable"),
        (integer(0, 9), ["1"], "values that a column cannot have: a: string; feed values of the type int"),
        (integer(0, 9), [DAY], "values that a column cannot have: a: date32"),
        (integer(0, 9), [2**64 - 1], "values that a column cannot have: a: Integer value"),
        (integer(0, 99, scale=1), [Decimal("1.25")], "values that a column cannot have: a: "),
        (DATES, [dt.datetime(2001, 2, 3, 4)], "values that a column cannot have: a: timestamp"),  # noqa: DTZ001
        (BOOL, [1], "values that a column cannot have: a: int64; feed values of the type bool"),
        (TEXT, [5], "values that a column cannot have: a: int64"),
        (code_type(("a", "b")), ["c"], "a value outside its bounds: a"),
        (SHORT, ["eight by"], "a value outside its bounds: a"),
    ],
)
def test_values_of_other_types_are_errors(type_, values, problem):
    array = pa.array(values, pa.uint64()) if values == [2**64 - 1] else pa.array(values)
    with pytest.raises(DeltamarkError) as error:
        arrow_batch(pa.table({"a": array}), source("t", {"a": type_}, 9).schema, 0)
    assert problem in str(error.value)


def test_wrong_files_are_errors(tmp_path):
    one, other, none = (tmp_path / name for name in ("a.parquet", "b.parquet", "c.parquet"))
    pq.write_table(pa.table({"a": [1]}), one)
    pq.write_table(pa.table({"a": ["x"]}), other)
    none.write_text("no Parquet")
    for problem, paths, columns in (
        ("files with different columns: t.a: int64 and string", [one, other], None),
        ("unknown column of t: b", one, ["b"]),
        ("cannot read or write: .*d.parquet: No such file", tmp_path / "d.parquet", None),
        ("not a Parquet file: .*c.parquet: Parquet magic bytes", none, None),
        ("a table without files: t", [], None),
    ):
        with pytest.raises(DeltamarkError, match=problem):
            parquet_table("t", paths, columns=columns)


@pytest.mark.parametrize(("value", "type_"), [(2**64 - 1, pa.uint64()), (-(2**63), pa.int64())])
def test_numbers_beyond_64_bits_are_an_error_that_names_the_column(value, type_, tmp_path):
    pq.write_table(pa.table({"a": pa.array([value], type_)}), tmp_path / "t.parquet")
    with pytest.raises(DeltamarkError, match=rf"a value may not fit in 64 bits: t\.a: {value}; give narrower bounds"):
        parquet_table("t", tmp_path / "t.parquet")


@pytest.mark.parametrize("module", [arrow_tables, tables])
def test_the_examples_of_docstrings_run(module):
    names = {"source": source, "integer": integer, "NULL": NULL}
    failed, attempted = doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert (failed, attempted > 1) == (0, True)
