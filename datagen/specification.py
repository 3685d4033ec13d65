"""TPC-H's specification of a scale factor: the rows of each relation, the bounds of columns, and the words of codes.

Plans can be built from it without data. A manifest has the exact numbers instead.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from itertools import product

from deltamark.datagen.schema import RelationName

ROWS: Mapping[RelationName, int] = {
    "customer": 150_000, "lineitem": 6_001_215, "orders": 1_500_000, "part": 200_000, "partsupp": 800_000,
    "supplier": 10_000,
}  # fmt: skip
"""Rows at scale factor 1. The lines of other scale factors deviate by less than one in a hundred."""

FIXED_ROWS: Mapping[RelationName, int] = {"nation": 25, "region": 5}

ORDER_KEYS_PER_ORDER = 4
"""Orders use a quarter of their keys."""

MEAN_LINES_PER_ORDER = 4

KEYED: Mapping[str, RelationName] = {"custkey": "customer", "partkey": "part", "suppkey": "supplier"}
"""The columns whose values go from 1 to the rows of a relation."""


def _days(first: str, last: str) -> tuple[int, int]:
    low, high = (dt.date.fromisoformat(day).toordinal() - dt.date(1970, 1, 1).toordinal() for day in (first, last))
    return low, high


BOUNDS: Mapping[str, tuple[int, int]] = {
    "nationkey": (0, 24), "regionkey": (0, 4), "linenumber": (1, 7), "shippriority": (0, 0), "size": (1, 50),
    "availqty": (1, 9_999),
    "acctbal": (-99_999, 999_999), "quantity": (1_00, 50_00), "discount": (0, 10), "tax": (0, 8),
    "supplycost": (1_00, 1_000_00), "retailprice": (900_00, 2_099_00), "extendedprice": (900_00, 104_950_00),
    "totalprice": (810_00, 793_422_00),
    "orderdate": _days("1992-01-01", "1998-08-02"), "shipdate": _days("1992-01-02", "1998-12-01"),
    "commitdate": _days("1992-01-31", "1998-10-31"), "receiptdate": _days("1992-01-03", "1998-12-31"),
}  # fmt: skip
"""The lowest and highest values of the other columns: numbers, hundredths or days since 1970."""

WORDS: Mapping[str, tuple[str, ...]] = {
    "mktsegment": ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"),
    "returnflag": ("A", "N", "R"),
    "linestatus": ("F", "O"),
    "orderstatus": ("F", "O", "P"),
    "orderpriority": ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"),
    "shipinstruct": ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"),
    "shipmode": ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
    "mfgr": tuple(f"Manufacturer#{number}" for number in range(1, 6)),
    "brand": tuple(f"Brand#{first}{second}" for first, second in product(range(1, 6), repeat=2)),
    "type": tuple(sorted(map(" ".join, product(
        ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
        ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
        ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
    )))),
    "container": tuple(sorted(map(" ".join, product(
        ("SM", "LG", "MED", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"),
    )))),
}  # fmt: skip
"""The words of codes, sorted."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "region": ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"),
    "nation": (
        "ALGERIA", "ARGENTINA", "BRAZIL", "CANADA", "CHINA", "EGYPT", "ETHIOPIA", "FRANCE", "GERMANY", "INDIA",
        "INDONESIA", "IRAN", "IRAQ", "JAPAN", "JORDAN", "KENYA", "MOROCCO", "MOZAMBIQUE", "PERU", "ROMANIA", "RUSSIA",
        "SAUDI ARABIA", "UNITED KINGDOM", "UNITED STATES", "VIETNAM",
    ),
}  # fmt: skip
"""The words of the column `name`, by relation."""


def rows(name: RelationName, sf: Decimal) -> int:
    """Return the number of rows of a relation."""
    return FIXED_ROWS[name] if name in FIXED_ROWS else int(sf * ROWS[name])


def live_rows(name: RelationName, sf: Decimal, workload: str) -> int:
    """Return the number of rows of a relation that a workload keeps live."""
    kind, _, size = workload.partition(":")
    if kind == "window" and name in ("orders", "lineitem"):
        return min(rows(name, sf), int(size) * (MEAN_LINES_PER_ORDER if name == "lineitem" else 1))
    if kind == "slide" and name not in FIXED_ROWS:
        return min(rows(name, sf), int(size))
    return rows(name, sf)


def bounds(column: str, sf: Decimal) -> tuple[int, int]:
    """Return the lowest and highest value of a column of numbers or dates."""
    if column == "orderkey":
        return 1, ORDER_KEYS_PER_ORDER * rows("orders", sf)
    return (1, rows(KEYED[column], sf)) if column in KEYED else BOUNDS[column]


def words(name: RelationName, column: str) -> tuple[str, ...]:
    """Return the sorted words of a column of codes."""
    return NAMES[name] if column == "name" else WORDS[column]
