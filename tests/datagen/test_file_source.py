"""Laws of files as a source: their rows come and go as the files say, and a contradiction is one clear error."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.harness.local_tasks import tasks_in_process

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.make import Wanted, make_data
from deltamark.datagen.schema import NULL
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import described
from deltamark.harness.check.oracle import LiveRows

DESCRIPTION = """
[relations.sales]
key = "sale"
arrives = "at"
change = "op"

[relations.notes]
arrives = "at"
weight = "n"
"""


def made(folder: Path, description: str = DESCRIPTION) -> Dataset:
    """Make the data of a folder, beside it."""
    (folder / "benchmark.toml").write_text(description)
    source = described(folder).source
    with tasks_in_process():
        return make_data(Wanted(folder / "data", Decimal(1), source=source), lambda *_: None)[0]


def write(folder: Path, name: str, columns: dict[str, list]) -> None:
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


@st.composite
def streams(draw):
    """Draw changes of sales by key, each at a time and right, and of notes by value."""
    sales, notes, price = [], [], {}
    live: Counter[str] = Counter()
    for at in range(draw(st.integers(1, 8))):
        for _ in range(draw(st.integers(0, 4))):
            sale = draw(st.integers(0, 3))
            op = draw(st.sampled_from(["update", "delete"])) if sale in price else "insert"
            if op == "delete":
                sales.append((at, op, sale, price.pop(sale)))
                continue
            price[sale] = draw(st.none() | st.integers(0, 9))
            sales.append((at, op, sale, price[sale]))
        for _ in range(draw(st.integers(0, 3))):
            note = draw(st.sampled_from(["a", "b", None]))
            n = draw(st.integers(-live[note], 2).filter(bool))
            live[note] += n
            notes.append((at, n, note))
    return sales, notes


@settings(max_examples=10)
@given(streams())
def test_rows_are_live_from_their_insertion_to_their_deletion(stream):
    sales, notes = stream
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        at, op, sale, price = zip(*sales, strict=True) if sales else ((),) * 4
        typed = {"at": pa.array(at, pa.int64()), "op": pa.array(op, pa.string()), "sale": pa.array(sale, pa.int64())}
        write(folder, "sales", {**typed, "price": pa.array(price, pa.decimal128(9, 2))})
        at, n, note = zip(*notes, strict=True) if notes else ((),) * 3
        columns = {"at": pa.array(at, pa.int64()), "n": pa.array(n, pa.int64()), "note": pa.array(note, pa.string())}
        write(folder, "notes", columns)
        work = workload(made(folder), "changes")
        times = sorted({each[0] for each in (*sales, *notes)})
        for round_, time in enumerate(times):
            assert live_sales(work, round_) == expected_sales(sales, time)
            assert live_notes(work, round_) == expected_notes(notes, time)
        assert work.rounds == max(len(times), 1)
        for name in ("sales", "notes"):
            sizes = [len(live(work, name, round_)) for round_ in range(work.rounds)]
            assert work.most_live(name) == max(sizes, default=0)
        for logical in (1, 3, 100):
            check_keys(work, logical)


def live(work, name, round_):
    """Return the positions of the live rows at the end of a round. One that arrives twice fails here."""
    rows = LiveRows(work, name, 1)
    rows.move(8 * round_ + 7)
    return np.flatnonzero(rows.mask)


def check_keys(work, logical):
    """Check that a sale arrives if none with its key is live, and leaves if one is, in the order of the feed."""
    assert (work.key("sales"), work.key("notes")) == (("sale",), ())
    live = set()
    for deltas in Feed(work, {"sales": ["sale"]}, logical=logical).batches(1):
        for sale, diff in (
            zip(deltas[0].columns["sale"].tolist(), deltas[0].diff.tolist(), strict=True) if deltas else ()
        ):
            assert (sale in live) == (diff < 0)
            live ^= {sale}


def live_sales(work, round_):
    table = work.dataset.table("sales").take(live(work, "sales", round_))
    prices = [None if price == NULL else price for price in table["price"].to_pylist()]
    return dict(zip(table["sale"].to_pylist(), prices, strict=True))


def live_notes(work, round_):
    return Counter(work.dataset.table("notes").take(live(work, "notes", round_))["note"].to_pylist())


def expected_sales(sales, until):
    found = {}
    for at, op, sale, price in sales:
        if at <= until and op == "delete":
            del found[sale]
        elif at <= until:
            found[sale] = None if price is None else 100 * price
    return found


def expected_notes(notes, until):
    found = Counter()
    for at, n, note in notes:
        found[note] += n * (at <= until)
    return +found


def test_rows_without_a_description_arrive_one_by_one(tmp_path):
    write(tmp_path, "b", {"x": [3, 1, 2], "word": ["p", None, "q"]})
    write(tmp_path, "a", {"day": [0, 5]})
    dataset = made(tmp_path, "")
    work = workload(dataset, "insert")
    assert list(dataset.relations) == ["a", "b"]
    assert [live(work, "b", round_).tolist() for round_ in range(3)] == [[0], [0, 1], [0, 1, 2]]
    assert dataset.table("b").to_pydict() == {"x": [3, 1, 2], "word": ["p", None, "q"]}


def test_members_lie_in_the_order_of_the_rows_to_which_they_belong(tmp_path):
    write(tmp_path, "bills", {"bill": [7, 3, 9]})
    write(tmp_path, "items", {"bill": [3, 9, 7, 3], "n": [1, 2, 3, 4]})
    dataset = made(
        tmp_path,
        "[relations.bills]\nkey = 'bill'\nroles = 'events'\n[relations.items]\nkey = ['n']\nmember_of = 'bills'\n"
        "references = { bill = 'bills' }",
    )
    assert dataset.table("items").to_pydict() == {"bill": [7, 3, 3, 9], "n": [3, 1, 4, 2]}
    assert dataset.first_members("items", 0, 4).tolist() == [0, 1, 3, 4]
    assert workload(dataset, "window:1").rounds == 4


def test_a_relation_whose_key_changes_has_none(tmp_path):
    write(tmp_path, "sales", {"sale": [1, 2], "price": [3, 4], "shop": ["a", "b"]})
    of = "[relations.sales]\nkey = {}\nroles = 'events'\nchanging = ['sale']"
    assert workload(made(tmp_path, of.format("'shop'")), "update:1").key("sales") == ("shop",)
    assert workload(made(tmp_path, of.format("['shop', 'sale']")), "update:1").key("sales") == ()


@pytest.mark.parametrize(
    ("sales", "message"),
    [
        ([(0, "insert", 1), (1, "delete", 2)], "a deletion of no row of sales: row 1 of its files"),
        ([(1, "insert", 1), (0, "delete", 1)], "a deletion of no row of sales: row 1 of its files"),
        ([(0, "update", 1)], "a deletion of no row of sales: row 0 of its files"),
        ([(0, "insert", 1), (1, "insert", 1)], "a key of sales is live twice: row 1 of its files"),
        ([(0, "upsert", 1)], "not a change in sales.op: row 0"),
        ([(0, None, 1)], "not a change in sales.op: row 0"),
    ],
)
def test_changes_that_contradict_each_other_are_an_error(tmp_path, sales, message):
    at, op, sale = zip(*sales, strict=True)
    write(tmp_path, "sales", {"at": at, "op": pa.array(op, pa.string()), "sale": sale})
    with pytest.raises(DeltamarkError) as error:
        made(tmp_path, DESCRIPTION.partition("[relations.notes]")[0])
    assert str(error.value).startswith(message)


def test_null_in_a_key_is_an_error(tmp_path):
    write(tmp_path, "sales", {"sale": [1, None]})
    with pytest.raises(DeltamarkError, match=r"NULL in sales.sale: row 1 of its files; correct the rows, or key"):
        made(tmp_path, "[relations.sales]\nkey = 'sale'")


def test_null_in_the_order_of_arrival_is_an_error(tmp_path):
    write(tmp_path, "notes", {"at": [2, None], "note": ["a", "b"]})
    with pytest.raises(DeltamarkError, match=r"NULL in notes.at: row 1 of its files; correct the rows, or arrives"):
        made(tmp_path, "[relations.notes]\narrives = 'at'")


@pytest.mark.parametrize("weight", [0, 10**9])
def test_a_weight_that_is_no_number_of_rows_is_an_error(tmp_path, weight):
    write(tmp_path, "notes", {"n": [1, weight], "note": ["a", "b"]})
    with pytest.raises(
        DeltamarkError, match=r"not a change in notes.n: row 1 of its files; write a number up to 1,000,000"
    ):
        made(tmp_path, "[relations.notes]\nweight = 'n'")


def test_a_relation_may_have_no_rows_and_a_column_no_values(tmp_path):
    write(tmp_path, "sales", {"sale": pa.array([], pa.int64()), "note": pa.array([], pa.string())})
    write(tmp_path, "notes", {"note": pa.array([None, None], pa.string()), "n": pa.array([None, None], pa.int32())})
    dataset = made(tmp_path, "")
    assert [dataset.rows(name) for name in ("sales", "notes")] == [0, 2]
    assert workload(dataset, "insert").rounds == 2


def test_the_files_of_a_relation_may_have_columns_of_several_sizes(tmp_path):
    (tmp_path / "sales").mkdir()
    write(tmp_path / "sales", "1", {"sale": pa.array([1], pa.int8())})
    write(tmp_path / "sales", "2", {"sale": pa.array([5_000_000_000], pa.int64()), "note": ["a"]})
    dataset = made(tmp_path, "")
    assert dataset.values("sales", "sale", range(2)).tolist() == [1, 5_000_000_000]
    assert dataset.values("sales", "note", range(2)).to_pylist() == [None, "a"]


def test_members_may_be_described_before_the_relation_to_which_they_belong(tmp_path):
    write(tmp_path, "lines", {"sale": [2, 1, 2]})
    write(tmp_path, "sales", {"sale": [1, 2]})
    links = "[relations.lines]\nreferences = { sale = 'sales' }\nmember_of = 'sales'\n"
    dataset = made(tmp_path, f"{links}[relations.sales]\nkey = 'sale'\nroles = 'events'")
    assert list(dataset.relations) == ["lines", "sales"]
    assert dataset.values("lines", "sale", range(3)).tolist() == [1, 2, 2]
    assert live(workload(dataset, "window:1"), "lines", 2).tolist() == [1, 2]


@pytest.mark.parametrize("name", ["_row_", 'a"b'])
def test_a_name_that_a_column_cannot_have_is_refused(tmp_path, name):
    write(tmp_path, "notes", {name: [1]})
    with pytest.raises(DeltamarkError, match=f"a name that a column cannot have: .*notes.parquet: {name}"):
        made(tmp_path, "")


def test_equal_folders_of_one_name_have_their_own_data_if_their_rows_differ(tmp_path):
    names = []
    for at in ("one", "two"):
        folder = tmp_path / at / "a shop"
        folder.mkdir(parents=True)
        write(folder, "notes", {"note": [at]})
        os.utime(folder / "notes.parquet", (0, 0))
        names.append(made(folder, "").directory.name)
    moved = (tmp_path / "one" / "a shop").rename(tmp_path / "a shop")
    assert made(moved, "").directory.name == names[0] != names[1]
    assert "a-shop-files-" in names[0]


def test_the_number_that_stands_for_null_is_refused(tmp_path):
    write(tmp_path, "sales", {"sale": [1, -(1 << 63)]})
    with pytest.raises(DeltamarkError, match="a value of sale that stands for NULL"):
        made(tmp_path, "")


def test_texts_that_are_not_codes_cannot_change(tmp_path):
    write(tmp_path, "sales", {"sale": [1, 2], "note": ["a", None]})
    dataset = made(tmp_path, "[relations.sales]\nkey = 'sale'\nroles = 'events'\nchanging = 'note'")
    with pytest.raises(DeltamarkError, match=r"a changing column of many texts, or of NULL: sales.note"):
        workload(dataset, "update:1")


def test_data_with_changes_has_no_other_workload(tmp_path):
    write(tmp_path, "notes", {"at": [0, 4], "n": [1, -1], "note": ["a", "a"]})
    dataset = made(tmp_path, DESCRIPTION.partition("key")[0].replace("sales", "notes") + 'arrives = "at"\nweight = "n"')
    assert workload(dataset, "changes").rounds == 2
    with pytest.raises(DeltamarkError, match="the workload insert does not apply: its rows come and go as the data"):
        workload(dataset, "insert")


def test_rows_that_only_arrive_may_leave_after_some_rounds(tmp_path):
    write(tmp_path, "notes", {"at": [2, 7, 7], "note": ["a", "b", "c"]})
    dataset = made(tmp_path, '[relations.notes]\narrives = "at"')
    assert [live(workload(dataset, "insert"), "notes", round_).tolist() for round_ in range(2)] == [[0], [0, 1, 2]]
    slide = workload(dataset, "slide:1")
    assert [live(slide, "notes", round_).tolist() for round_ in range(slide.rounds)] == [[0], [1, 2], []]
    with pytest.raises(DeltamarkError, match="the workload late does not apply: its rows arrive in the rounds"):
        workload(dataset, "late:1")


def test_data_is_made_again_if_a_file_or_the_description_changes(tmp_path):
    write(tmp_path, "notes", {"note": ["a"]})
    first = made(tmp_path, "").directory
    assert made(tmp_path, "title = 'Notes'").directory == first
    assert made(tmp_path, "[relations.notes]\nkey = 'note'").directory != first
    write(tmp_path, "notes", {"note": ["a", "b"]})
    assert made(tmp_path, "").directory != first


@pytest.mark.parametrize(
    ("type_", "values"),
    [("UBIGINT", "1"), ("TIMESTAMP_NS", "'2025-01-01'"), ("DECIMAL(30, 2)", "1"), ("BOOLEAN", "true")],
)
def test_a_column_of_another_type_is_refused_by_name(tmp_path, type_, values):
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {values}::{type_} AS x) TO '{tmp_path}/t.parquet'")
    with pytest.raises(DeltamarkError, match=r"t.x has a type that is not supported: .*; convert the column"):
        made(tmp_path, "")


def test_rows_of_one_relation_that_arrive_together_have_one_round(tmp_path):
    write(tmp_path, "notes", {"at": [2, 7, 7], "note": ["a", "b", "c"]})
    dataset = made(tmp_path, '[relations.notes]\narrives = "at"')
    work = workload(dataset, "changes")
    assert [live(work, "notes", round_).tolist() for round_ in range(work.rounds)] == [[0], [0, 1, 2]]


def test_events_without_a_date_do_not_expire(tmp_path):
    days = [5, None, 0, 5, 9, None, 2]
    write(
        tmp_path,
        "sales",
        {
            "sale": [*range(7)],
            "sold": [None if day is None else date(2026, 1, 1) + timedelta(days=day) for day in days],
        },
    )
    work = workload(made(tmp_path, '[relations.sales]\nkey = "sale"\nroles = ["events"]'), "expire:4")
    changes = [(1 + (day or 0), row, 1) for row, day in enumerate(days)]
    changes += [(1 + day + 4, row, -1) for row, day in enumerate(days) if day is not None and day + 4 <= 9]
    assert sorted(
        (round_, row, piece.diff)
        for round_ in range(work.rounds)
        for piece in work.pieces("sales", round_, round_ + 1)
        for row in piece.rows.tolist()
    ) == sorted(changes)
    assert (work.rounds, work.most_live("sales")) == (11, 5)
