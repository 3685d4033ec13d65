"""Laws of the workloads that change rows in place, or take rows away and bring them back."""

from __future__ import annotations

import numpy as np
import pytest

from deltamark.datagen.derived import DerivedRows, ExtendedDataset
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.steps import drawn, versions
from deltamark.harness.check.oracle import LiveRows

CHANGED = {
    "update": {"orders": {"orderstatus"}, "lineitem": {"quantity", "extendedprice", "discount"}},
    "churn": {
        "orders": {"orderstatus"}, "lineitem": {"quantity", "extendedprice", "discount"}, "customer": {"nationkey"},
        "nation": {"regionkey"}, "part": {"brand", "type", "retailprice"},
    },
}  # fmt: skip
"""The columns that change, by workload and relation."""

REFERENCES = [
    ("orders", "custkey", "customer"), ("lineitem", "orderkey", "orders"), ("lineitem", "partkey", "part"),
    ("partsupp", "partkey", "part"), ("partsupp", "suppkey", "supplier"),
]  # fmt: skip


def values(work, name, column, rows):
    """Return the values at some positions as a list."""
    return work.dataset.values(name, column, rows).tolist()


def live(work, name, round_):
    """Return the live positions at the end of a round. A position that arrives twice fails here."""
    rows = LiveRows(work, name, 1)
    rows.move(8 * round_ + 7)
    return np.flatnonzero(rows.mask)


def last_rounds(work, steps):
    return range(work.rounds - steps - 1, work.rounds)


@pytest.mark.parametrize("kind", CHANGED)
def test_a_new_version_differs_from_the_one_before_in_the_columns_that_change(chunked, kind):
    work = workload(chunked, f"{kind}:400")
    for name, columns in CHANGED[kind].items():
        pieces = [piece for piece in work.pieces(name, 0, work.rounds) if len(piece.rows) < chunked.rows(name)]
        old = np.concatenate([piece.rows for piece in pieces if piece.diff < 0])
        new = np.concatenate([np.array(piece.rows) for piece in pieces if piece.diff > 0 and piece.rows[0] > old.min()])
        new = new[new >= chunked.first_derived(name)]
        assert len(old) == len(new) > 0
        assert (old >= chunked.first_derived(name)).any(), "some rows change twice"
        equal = {
            column.name: np.array(values(work, name, column.name, old)) == values(work, name, column.name, new)
            for column in RELATIONS[name].columns
        }
        assert {column for column, same in equal.items() if not same.all()} == columns
        changed = sum(~equal[column] for column in columns)
        assert set(changed.tolist()) == {1 if name == "part" else len(columns)}


@pytest.mark.parametrize("kind", CHANGED)
def test_derived_values_are_within_the_bounds_of_the_manifest(chunked, kind):
    work = workload(chunked, f"{kind}:400")
    for name, columns in CHANGED[kind].items():
        files = chunked.manifest.relations[name]
        derived = range(chunked.first_derived(name), work.dataset.positions(name))
        for column in columns:
            found = np.array(values(work, name, column, derived))
            size = files.dictionaries.get(column)
            low, high = (0, size - 1) if size else files.bounds[column]
            assert low <= found.min() < found.max() <= high


def test_the_table_of_a_relation_ends_with_its_derived_rows(chunked):
    work = workload(chunked, "update:30")
    table = work.dataset.table("orders", ["orderkey", "orderstatus", "comment"])
    assert table.num_rows == chunked.rows("orders") + 30
    derived = range(chunked.first_derived("orders"), work.dataset.positions("orders"))
    assert work.dataset.numbers("orders", np.array(derived)).tolist() == list(range(1500, 1530))
    words = work.dataset.dictionary("orders", "orderstatus").to_pylist()
    statuses = [words[code] for code in values(work, "orders", "orderstatus", derived)]
    assert table["orderstatus"].to_pylist()[1500:] == statuses
    assert table["comment"].to_pylist()[1500:] == values(work, "orders", "comment", derived)


@pytest.mark.parametrize("name", ["update:40", "churn:40", "hot:40"])
def test_keys_stay_unique_and_the_number_of_live_rows_is_bounded(chunked, name):
    work = workload(chunked, name)
    for relation in set(RELATIONS) - {"partsupp"}:  # its keys are not unique at this scale
        for round_ in last_rounds(work, 40)[::7]:
            rows = live(work, relation, round_)
            keys = list(zip(*(values(work, relation, key, rows) for key in RELATIONS[relation].key), strict=True))
            assert len(set(keys)) == len(keys) <= work.most_live(relation)


@pytest.mark.parametrize("name", ["update:9", "hot:9"])
def test_a_live_row_refers_to_live_rows(chunked, name):
    work = workload(chunked, name)
    for round_ in last_rounds(work, 9):
        for relation, key, to in REFERENCES:
            there = values(work, to, key, live(work, to, round_))
            assert set(values(work, relation, key, live(work, relation, round_))) <= set(there)


def test_an_update_replaces_orders_with_all_their_lines(sf001):
    work = workload(sf001, "update:3")
    first = work.rounds - 3
    for step in range(3):
        orders, lines = (work.pieces(name, first + step, first + step + 1) for name in ("orders", "lineitem"))
        for old_or_new, of_orders in zip(lines, orders, strict=True):
            keys = set(values(work, "orders", "orderkey", of_orders.rows))
            every = sf001.values("lineitem", "orderkey", range(sf001.rows("lineitem")))
            assert len(keys) == 15
            assert len(old_or_new.rows) == np.isin(every, list(keys)).sum()
            assert set(values(work, "lineitem", "orderkey", old_or_new.rows)) == keys


def test_churn_changes_every_relation_in_each_round(chunked):
    work = workload(chunked, "churn:9")
    for round_ in last_rounds(work, 9)[1:]:
        assert all(work.pieces(name, round_, round_ + 1) for name in RELATIONS)
        there = values(work, "supplier", "suppkey", live(work, "supplier", round_))
        assert len(there) == chunked.rows("supplier") - 1
        assert set(values(work, "partsupp", "suppkey", live(work, "partsupp", round_))) == set(there)
    assert [len(live(work, "region", round_)) for round_ in last_rounds(work, 9)] == [5, *([4, 5] * 4), 4]


def test_the_busiest_customers_and_parts_leave_first_and_all_come_back(chunked):
    work = workload(chunked, "hot:8")
    before = work.rounds - 9
    for name, of, key, phase in (("customer", "orders", "custkey", 1), ("part", "lineitem", "partkey", 2)):
        references = chunked.values(of, key, range(chunked.rows(of)))
        counts = np.bincount(references)
        (gone,) = set(live(work, name, before)) - set(live(work, name, before + phase))
        assert counts[values(work, name, key, np.array([gone]))[0]] == counts.max()
    for name in ("customer", "orders", "part", "partsupp", "lineitem"):
        sizes = [len(live(work, name, before + phase)) for phase in range(9)]
        assert sizes[0] == sizes[4] == sizes[8] == chunked.rows(name)
        assert min(sizes[1:4]) < sizes[0] > min(sizes[5:8])


def test_versions_are_numbered_and_replace_each_other():
    found = versions([np.array([3, 1]), np.array([1, 2]), np.array([1])], first=10)
    assert found.number.tolist() == [1, 1, 2, 1, 3]
    assert found.replaced.tolist() == [3, 1, 11, 2, 12]
    (old, retracted), (new, inserted) = found.changes(1)
    assert (old.tolist(), retracted, new, inserted) == ([11, 2], -1, range(12, 14), 1)


def test_drawn_rows_differ_from_each_other_and_do_not_depend_on_numpy():
    assert sorted(drawn("all", 7, 7).tolist()) == list(range(7))
    assert drawn("some", 10**6, 3).tolist() == drawn("some", 10**6, 5)[:3].tolist()


def test_a_column_with_one_value_keeps_it(chunked):
    rows = DerivedRows(np.array([0, 1]), {"shippriority": np.array([1, 2])})
    assert ExtendedDataset(chunked, {"orders": rows}).values("orders", "shippriority", np.array([1536])).tolist() == [0]
