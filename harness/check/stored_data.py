"""Checks of the stored data, in SQL and without the code that has stored or computed it.

Every row must equal the generator's; skewed data must keep its laws. The shares of ranks are compared with Zipf's law
too, for which only the order of the keys is taken from the code that computed the columns.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import Column, Relation
from deltamark.datagen.scratch import scratch
from deltamark.datagen.skew import SKEWED, customers_by_rank, parts_by_rank
from deltamark.datagen.tpch import RELATIONS, find_generator
from deltamark.errors import DeltamarkError

SQL_TEXTS = {
    "int": "{0}::VARCHAR",
    "decimal": "printf('%s%d.%02d', CASE WHEN {0} < 0 THEN '-' ELSE '' END, abs({0}) // 100, abs({0}) % 100)",
    "date": "(DATE '1970-01-01' + {0})::VARCHAR",
    "code": "{0}::VARCHAR",
    "text": "{0}",
}
"""The SQL that writes a stored column as the generator's text, for each kind of column."""


def check_source(dataset: Dataset, report: Callable[[str, int, int], None]) -> None:
    """Generate all rows again, as one part and without Spark; raise a DeltamarkError for the first difference."""
    with scratch() as directory:
        report("generating the rows again", 0, 0)
        command = [find_generator(), "parquet", "-s", dataset.manifest.sf, "-o", str(directory), "--quiet"]
        subprocess.run(command, check=True)
        total = sum(files.rows for files in dataset.manifest.relations.values())
        done = 0
        for relation in dataset.relations.values():
            _compare_rows(dataset, relation, directory / f"{relation.name}.parquet")
            report("comparing rows", done := done + dataset.rows(relation.name), total)


def _compare_rows(dataset: Dataset, relation: Relation, parquet: Path) -> None:
    theirs = [f"{relation.prefix}{column.name}::VARCHAR" for column in relation.columns]
    ours = [_as_text(column) for column in relation.columns]
    with duckdb.connect() as connection:
        connection.register("stored", dataset.table(relation.name))
        made = _digests(connection, theirs, f"read_parquet('{parquet}')")
        stored = _digests(connection, ours, "stored")
        rows = min(len(made), len(stored))
        differs = np.flatnonzero(made[:rows] != stored[:rows])
        if len(made) == len(stored) and not len(differs):
            return
        row = int(differs[0]) if len(differs) else rows
        actual = f"row {row} is {_row(connection, ours, 'stored', row)}"
        made_row = _row(connection, theirs, f"read_parquet('{parquet}')", row)
        raise DeltamarkError(f"{relation.name} differs from the generator", actual, f"it makes {made_row}")


def _as_text(column: Column) -> str:
    return SQL_TEXTS[column.kind].format(f'"{column.name}"')


def _digests(connection: duckdb.DuckDBPyConnection, columns: list[str], source: str) -> np.ndarray:
    sql = f"SELECT md5_number_lower(concat_ws('|', {', '.join(columns)})) AS digest FROM {source}"  # noqa: S608
    digests: np.ndarray = connection.execute(sql).fetchnumpy()["digest"]
    return digests


def _row(connection: duckdb.DuckDBPyConnection, columns: list[str], source: str, row: int) -> str:
    sql = f"SELECT concat_ws('|', {', '.join(columns)}) FROM {source} LIMIT 1 OFFSET {row}"  # noqa: S608
    found = connection.execute(sql).fetchone()
    return found[0] if found else "absent"


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
        _compare_columns(plain, skewed, name)
    for number, (violation, sql) in enumerate(LAWS.items()):
        report("checking laws", number, total)
        _check_law(skewed, violation, sql)
    report("checking laws", len(LAWS), total)
    _check_shares(skewed, "orders", "custkey", customers_by_rank(plain.rows("customer")), exponent)
    _check_shares(skewed, "lineitem", "partkey", parts_by_rank(plain.rows("part")), exponent)
    report("checking laws", total, total)


def _compare_columns(plain: Dataset, skewed: Dataset, name: str) -> None:
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
