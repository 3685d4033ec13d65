"""A check of skewed data: its laws, in SQL over the stored rows and without the code that computed the columns.

The shares of ranks are compared with Zipf's law too, for which only the order of the keys is taken from that code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

import duckdb
import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.skew.columns import SKEWED, customers_by_rank, parts_by_rank
from deltamark.datagen.tpch import RELATIONS
from deltamark.errors import DeltamarkError

LAWS = {
    "a customer of an order does not exist, or has a key that is a multiple of three": """
        SELECT orderkey FROM orders
        WHERE custkey % 3 = 0 OR custkey NOT IN (SELECT custkey FROM customer)""",
    "the supplier of a line does not supply its part": """
        SELECT orderkey, linenumber FROM lineitem
        WHERE (partkey, suppkey) NOT IN (SELECT (partkey, suppkey) FROM partsupp)""",
    "the price of a line is not that of its part": """
        SELECT orderkey, linenumber FROM lineitem JOIN part USING (partkey)
        WHERE extendedprice <> quantity // 100 * retailprice""",
    "the price of an order is not that of its lines": """
        SELECT orderkey FROM lineitem JOIN orders USING (orderkey) GROUP BY orderkey
        HAVING any_value(totalprice) <> sum(extendedprice * (100 - discount) // 100 * (100 + tax) // 100)""",
}
"""Queries that find the rows which break a law, by the law's violation."""

MAX_DEVIATION = 6.0
"""The largest deviation of a share, in standard deviations: one in 5e8 draws of a share deviates more."""


def check_skewed(plain: Dataset, skewed: Dataset, exponent: Decimal, report: Callable[[str, int, int], None]) -> None:
    """Raise a DeltamarkError for the first violation of a law."""
    total = len(LAWS) + 2
    for name in RELATIONS:
        _compare(plain, skewed, name)
    for number, (violation, sql) in enumerate(LAWS.items()):
        report("checking laws", number, total)
        _check_law(skewed, violation, sql)
    report("checking laws", len(LAWS), total)
    _check_shares(skewed, "orders", "custkey", customers_by_rank(plain.rows("customer")), exponent)
    _check_shares(skewed, "lineitem", "partkey", parts_by_rank(plain.rows("part")), exponent)
    report("checking laws", total, total)


def _compare(plain: Dataset, skewed: Dataset, name: str) -> None:
    """Check that all columns but the skewed ones are those of the plain data."""
    same = [column.name for column in RELATIONS[name].columns if column.name not in SKEWED.get(name, ())]
    for column in same:
        if not plain.table(name, [column]).equals(skewed.table(name, [column])):
            raise _wrong(skewed, f"{column} of {name} differs from the plain data")


def _check_law(skewed: Dataset, violation: str, sql: str) -> None:
    with duckdb.connect() as connection:
        for name in RELATIONS:
            connection.register(name, skewed.table(name))
        found = connection.execute(f"{sql} LIMIT 1").fetchone()
    if found:
        raise _wrong(skewed, f"{violation}: {', '.join(map(str, found))}")


def _check_shares(skewed: Dataset, name: str, column: str, keys: np.ndarray, exponent: Decimal) -> None:
    """Compare the shares of ranks 1, 2 to 3, 4 to 7, and so on, with those of Zipf's law."""
    stored = skewed.table(name, [column])[column].to_numpy()
    rows = np.bincount(stored, minlength=int(keys.max()) + 1)[keys]
    weights = np.arange(1.0, len(keys) + 1) ** -float(exponent)
    shares = weights / weights.sum()
    for low, high in _octaves(len(keys)):
        share, found = shares[low:high].sum(), int(rows[low:high].sum())
        expected = share * len(stored)
        if abs(found - expected) > MAX_DEVIATION * np.sqrt(expected * (1 - share)) + 1:
            raise _wrong(
                skewed, f"{found} rows of {name} have a {column} of ranks {low + 1} to {high}, not {expected:.0f}"
            )


def _octaves(ranks: int) -> Iterator[tuple[int, int]]:
    low = 0
    while low < ranks:
        high = min(2 * low + 1, ranks)
        yield low, high
        low = high


def _wrong(skewed: Dataset, actual: str) -> DeltamarkError:
    remedy = f"move {skewed.directory} away and make the data again"
    return DeltamarkError("skewed data breaks a law", f"{skewed.directory}: {actual}", remedy)
