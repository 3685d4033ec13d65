"""Laws of skewed data: keys follow Zipf's law, references hold, prices follow, and all other columns are TPC-H's."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from support.harness.local_tasks import tasks_in_process

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted, make_data
from deltamark.datagen.skew import SKEWED, SkewedColumns, cumulated, drawn, ranking, weights
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.check.stored_data import check_skewed

ONE = Decimal(1)


def quiet(*_):
    pass


def whole(dataset, name, column):
    return dataset.values(name, column, range(dataset.rows(name)))


def wrong(skewed, name, column, values):
    """Return skewed data with other values in a column."""
    table = Dataset.table(skewed, name)
    at = table.schema.get_field_index(column)
    changed = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
    copy = Dataset(skewed.directory, skewed.manifest)
    copy.table = lambda other, columns=None: (
        changed.select(columns or changed.column_names) if other == name else skewed.table(other, columns)
    )
    return copy


@pytest.mark.parametrize("dataset", ["sf001", "chunked"])
def test_skewed_data_keeps_its_laws(dataset, request):
    plain = request.getfixturevalue(dataset)
    check_skewed(plain, workload(plain, "zipf:1").dataset, ONE, quiet)


@pytest.mark.parametrize(
    ("name", "column", "change", "message"),
    [
        ("orders", "custkey", lambda keys: keys // 3 * 3, "a customer of an order does not exist, or has a key that"),
        ("lineitem", "suppkey", lambda keys: keys % 100 + 1, "the supplier of a line does not supply its part"),
        ("lineitem", "extendedprice", lambda prices: prices + 1, "the price of a line is not that of its part"),
        ("orders", "totalprice", lambda prices: prices + 1, "the price of an order is not that of its lines"),
        ("lineitem", "tax", lambda taxes: 8 - taxes, "tax of lineitem differs from the plain data"),
        ("orders", "custkey", lambda keys: np.roll(np.arange(len(keys)) % 500 * 3 + 1, 1), "rows of orders have a"),
    ],
)
def test_the_check_names_the_violated_law(sf001, name, column, change, message):
    skewed = workload(sf001, "zipf:1").dataset
    copy = wrong(skewed, name, column, change(whole(skewed, name, column)))
    with pytest.raises(DeltamarkError, match=message):
        check_skewed(sf001, copy, ONE, quiet)


def test_another_exponent_is_found_by_the_shares(sf001):
    with pytest.raises(DeltamarkError, match="rows of orders have a custkey of ranks 1 to 1, not"):
        check_skewed(sf001, workload(sf001, "zipf:1").dataset, Decimal("1.2"), quiet)


@pytest.mark.parametrize("name", SKEWED)
def test_values_do_not_depend_on_files(chunked, name):
    skewed = workload(chunked, "zipf:1").dataset
    assert len(skewed.manifest.relations[name].chunks) > 1
    for column in SKEWED[name]:
        expected = SkewedColumns(chunked, ONE).values(name, column, range(chunked.rows(name)))
        assert np.array_equal(whole(skewed, name, column), expected)


def test_prices_are_computed_as_the_generator_does(sf001, monkeypatch):
    keys = whole(sf001, "lineitem", "partkey")
    monkeypatch.setattr(SkewedColumns, "parts", lambda _, lines: keys[lines.start : lines.stop])
    columns = SkewedColumns(sf001, ONE)
    for name, column in (("lineitem", "extendedprice"), ("orders", "totalprice")):
        computed = columns.values(name, column, range(sf001.rows(name)))
        assert np.array_equal(computed, whole(sf001, name, column))


def test_the_suppliers_of_a_part_have_lines_by_their_ranks(sf001):
    skewed = workload(sf001, "zipf:1").dataset
    parts, suppliers = (whole(skewed, "lineitem", column) for column in ("partkey", "suppkey"))
    part = np.bincount(parts).argmax()
    keys = whole(sf001, "partsupp", "suppkey").reshape(-1, 4)[part - 1]
    shares = 1 / (1 + np.argsort(ranking("suppliers by rank", sf001.rows("supplier")))[keys - 1])
    expected = shares / shares.sum()
    found = np.array([(suppliers[parts == part] == key).mean() for key in keys])
    assert np.abs(found - expected).max() < 6 * np.sqrt(1 / (4 * (parts == part).sum()))


@pytest.mark.parametrize("exponent", ["0.01", "0.5", "1", "1.2", "2.37", "4"])
def test_weights_are_powers_of_ranks(exponent):
    expected = np.arange(1.0, 1001) ** -float(exponent)
    assert np.allclose(weights(1000, Decimal(exponent)), expected, rtol=1e-5)


@pytest.mark.parametrize("exponent", ["0.01", "1", "4"])
def test_every_drawn_rank_exists(exponent):
    ranks = drawn("any", np.arange(10_000), cumulated(3, Decimal(exponent)))
    assert set(ranks.tolist()) == {0, 1, 2}


def test_a_ranking_is_a_permutation():
    assert sorted(ranking("any", 100).tolist()) == list(range(100))
    assert ranking("any", 5).tolist() != list(range(5))


def test_the_rounds_are_those_of_insert(chunked):
    skewed, plain = workload(chunked, "zipf:1"), workload(chunked, "insert")
    assert skewed.rounds == plain.rounds
    for name in RELATIONS:
        assert skewed.pieces(name, 7, 9) == plain.pieces(name, 7, 9)
        assert skewed.most_live(name) == plain.most_live(name) == skewed.dataset.rows(name)


def test_only_orders_and_lines_are_stored_again(chunked):
    directory = workload(chunked, "zipf:1").dataset.directory
    stored = {path.name for path in directory.iterdir() if path.is_dir() and not path.is_symlink()}
    assert stored == {"orders", "lineitem"}


def test_existing_skewed_data_is_used(data, monkeypatch):
    monkeypatch.setattr("deltamark.datagen.make.session", None)  # Spark is not even started
    _, is_new = make_data(Wanted(data, Decimal("0.01"), workloads=("insert", "zipf:1")), quiet)
    assert not is_new


def test_missing_skewed_data_is_made_or_named(tmp_path, data):
    wanted = Wanted(tmp_path, Decimal("0.001"), workloads=("zipf:0.5", "zipf:0.5"))
    (stored,) = data.glob("tpch-sf0.001-*-v4")
    wanted.directory.symlink_to(stored)
    plain = Dataset.open(wanted.directory)
    with pytest.raises(DeltamarkError) as error:
        workload(plain, "zipf:0.5").dataset  # noqa: B018 (the data is opened here)
    assert str(error.value) == (
        f"no data of the workload zipf:0.5: {wanted.directory}-zipf0.5; make data SF=0.001 WORKLOAD=zipf:0.5"
    )
    with tasks_in_process():
        _, is_new = make_data(wanted, quiet)
    assert is_new
    check_skewed(plain, workload(plain, "zipf:0.5").dataset, Decimal("0.5"), quiet)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        wanted.directory.name,
        f"{wanted.directory.name}-zipf0.5",
    ]


@pytest.mark.parametrize("text", ["1.0", "0", "4.01", "1.234", "", "x", "-1", "1e0"])
def test_an_exponent_has_one_spelling(text):
    with pytest.raises(DeltamarkError) as error:
        workload(None, f"zipf:{text}")
    assert str(error.value) == (
        f"zipf:Z needs a number Z: '{text}'; write one from 0.01 to 4 with at most two places, such as 1 or 1.2"
    )
