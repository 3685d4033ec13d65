"""Skewed data: the keys of orders and lines follow Zipf's law, and the rest of the data is TPC-H's.

By Zipf's law the key of rank r has a share that is proportional to r^-Z. The numbers are the same on every machine:
they come from additions, products, quotients and square roots, which IEEE 754 rounds exactly, and not from a power,
whose last bit depends on the machine.

Customers and parts are drawn by the law. A line's supplier is drawn by the same law among the four that supply its
part, with their ranks among all suppliers. Prices follow from the parts, as in the specification. The ranking of keys
and the random number of a row do not depend on the exponent.

A Spark job copies each file of orders and lineitem with its skewed columns. The other relations are links to the plain
data, beside which the skewed data lies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from deltamark.datagen.dataset import Dataset, map_batch
from deltamark.datagen.manifest import MEMBERS, Chunk, RelationFiles
from deltamark.datagen.positions import array_of
from deltamark.datagen.prebatch import WrittenChunk, bounds_of, merged, write_arrow
from deltamark.datagen.seeded import hashed
from deltamark.datagen.spark.session import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FRACTION_BITS = 20
"""The binary places of an exponent."""

UNIFORM_BITS = 53
"""The bits of a uniform number, which a float represents exactly."""


def weights(ranks: int, exponent: Decimal) -> np.ndarray:
    """Return r^-exponent for the ranks r from 1 to `ranks`. The exponent is rounded to a multiple of 2^-20."""
    whole, fraction = divmod(round(exponent * (1 << FRACTION_BITS)), 1 << FRACTION_BITS)
    root = np.arange(1.0, ranks + 1)
    power = np.ones(ranks)
    for _ in range(whole):
        power *= root
    for bit in reversed(range(FRACTION_BITS)):
        root = np.sqrt(root)
        if fraction >> bit & 1:
            power *= root
    return 1 / power


def cumulated(ranks: int, exponent: Decimal) -> np.ndarray:
    """Return the sums of the weights up to each rank."""
    return np.cumsum(weights(ranks, exponent))


def uniform(purpose: str, rows: np.ndarray) -> np.ndarray:
    """Draw a number from 0 to 1 for each row."""
    return (hashed(purpose, rows) >> (63 - UNIFORM_BITS)) / (1 << UNIFORM_BITS)


def drawn(purpose: str, rows: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Draw a rank, counted from 0, for each row. sums: the cumulated weights of the ranks."""
    return np.searchsorted(sums, uniform(purpose, rows) * sums[-1])


def ranking(purpose: str, keys: int) -> np.ndarray:
    """Return a permutation of 0 to keys - 1: the key of each rank."""
    return np.argsort(hashed(purpose, np.arange(keys)), kind="stable")


SUPPLIERS_OF_A_PART = 4

SKEWED: Mapping[str, tuple[str, ...]] = {
    "orders": ("custkey", "totalprice"), "lineitem": ("partkey", "suppkey", "extendedprice"),
}  # fmt: skip
"""The columns that are skewed, by relation."""


def customers_by_rank(customers: int) -> np.ndarray:
    """Return the keys of the customers with orders, by rank. As in the specification, they are no multiples of 3."""
    keys = np.arange(1, customers + 1)
    keys = keys[keys % 3 != 0]
    return keys[ranking("customers by rank", len(keys))]


def parts_by_rank(parts: int) -> np.ndarray:
    """Return the keys of the parts by rank."""
    return 1 + ranking("parts by rank", parts)


class SkewedColumns:
    """Computes the skewed columns of a dataset whose keys are those of the generator."""

    def __init__(self, plain: Dataset, exponent: Decimal) -> None:
        self._plain = plain
        self._exponent = exponent
        self._compute: Mapping[tuple[str, str], Callable[[range], np.ndarray]] = {
            ("orders", "custkey"): self.customers, ("orders", "totalprice"): self.total_prices,
            ("lineitem", "partkey"): self.parts, ("lineitem", "suppkey"): self.suppliers,
            ("lineitem", "extendedprice"): self.extended_prices,
        }  # fmt: skip

    def values(self, name: str, column: str, rows: range) -> np.ndarray:
        """Compute the values of a skewed column of some rows."""
        return self._compute[name, column](rows)

    def customers(self, orders: range) -> np.ndarray:
        return self._customer_keys[drawn("customers of orders", array_of(orders), self._customer_sums)]

    def total_prices(self, orders: range) -> np.ndarray:
        """Sum the prices of the lines of orders after discount and tax, each rounded down as the generator does."""
        first = self._plain.first_members("lineitem", orders.start, orders.stop + 1)
        lines = range(int(first[0]), int(first[-1]))
        discount, tax = (self._stored("lineitem", column, lines) for column in ("discount", "tax"))
        prices = self.extended_prices(lines) * (100 - discount) // 100 * (100 + tax) // 100
        return np.add.reduceat(prices, first[:-1] - first[0])

    def parts(self, lines: range) -> np.ndarray:
        return self._part_keys[drawn("parts of lines", array_of(lines), self._part_sums)]

    def suppliers(self, lines: range) -> np.ndarray:
        parts = self.parts(lines) - 1
        sums = self._supplier_sums[parts]
        drawn_sums = uniform("suppliers of lines", array_of(lines)) * sums[:, -1]
        return self._suppliers[parts, (sums < drawn_sums[:, None]).sum(axis=1)]

    def extended_prices(self, lines: range) -> np.ndarray:
        return self._stored("lineitem", "quantity", lines) // 100 * self._retail_prices[self.parts(lines) - 1]

    @cached_property
    def _customer_keys(self) -> np.ndarray:
        return customers_by_rank(self._plain.rows("customer"))

    @cached_property
    def _customer_sums(self) -> np.ndarray:
        return cumulated(len(self._customer_keys), self._exponent)

    @cached_property
    def _part_keys(self) -> np.ndarray:
        return parts_by_rank(self._plain.rows("part"))

    @cached_property
    def _part_sums(self) -> np.ndarray:
        return cumulated(self._plain.rows("part"), self._exponent)

    @cached_property
    def _suppliers(self) -> np.ndarray:
        """The keys of the suppliers of each part: a row for each part."""
        return self._whole("partsupp", "suppkey").reshape(-1, SUPPLIERS_OF_A_PART)

    @cached_property
    def _supplier_sums(self) -> np.ndarray:
        """The cumulated weights of the suppliers of each part."""
        suppliers = self._plain.rows("supplier")
        of_key = np.empty(suppliers)
        of_key[ranking("suppliers by rank", suppliers)] = weights(suppliers, self._exponent)
        return np.cumsum(of_key[self._suppliers - 1], axis=1)

    @cached_property
    def _retail_prices(self) -> np.ndarray:
        return self._whole("part", "retailprice")

    def _whole(self, name: str, column: str) -> np.ndarray:
        return self._stored(name, column, range(self._plain.rows(name)))

    def _stored(self, name: str, column: str, rows: range) -> np.ndarray:
        values = self._plain.values(name, column, rows)
        assert isinstance(values, np.ndarray)
        return values


@dataclass(frozen=True)
class RewriteTask:
    """A file of the data in `plain` that is to be rewritten below the directory `into`."""

    plain: Path
    exponent: Decimal
    relation: str
    number: int
    into: Path


def rewrite(
    spark: SparkSession, plain: Dataset, exponent: Decimal, into: Path, report: Callable[[int, int], None]
) -> None:
    """Write skewed data below `into`, and last its manifest; report the files done."""
    into.mkdir(parents=True)
    for name in (*plain.relations, MEMBERS):
        if name in SKEWED:
            (into / name).mkdir()
        else:
            (into / name).symlink_to(Path("..") / plain.directory.name / name)
    tasks = [
        RewriteTask(plain.directory, exponent, name, number, into)
        for name in SKEWED
        for number in range(len(plain.manifest.relations[name].chunks))
    ]

    def poll() -> None:
        report(sum((into / _chunk(plain, task).file).exists() for task in tasks), len(tasks))

    written = run_tasks(spark, rewrite_file, tasks, poll)
    report(len(tasks), len(tasks))
    manifest = plain.manifest
    relations = {
        name: _files(files, [each for each in written if each.relation == name])
        for name, files in manifest.relations.items()
    }
    generator = f"{manifest.generator}, keys by Zipf's law with exponent {exponent}"
    replace(manifest, generator=generator, relations=relations).write(into)


def rewrite_file(task: RewriteTask) -> WrittenChunk:
    """Copy one file with its skewed columns."""
    plain, columns = _opened(task.plain, task.exponent)
    chunk, schema = _chunk(plain, task), plain.relations[task.relation].arrow_schema
    batch = map_batch(task.plain, chunk, schema)
    first = task.number << plain.shift
    skewed = {
        column: pa.array(columns.values(task.relation, column, range(first, first + chunk.rows)))
        for column in SKEWED[task.relation]
    }
    arrays = [skewed.get(name, batch.column(name)) for name in schema.names]
    bounds = {name: bounds_of(plain.relations[task.relation].column(name), array) for name, array in skewed.items()}
    rewritten = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return WrittenChunk(task.relation, write_arrow(task.into, chunk.file, rewritten), bounds)


@cache
def _opened(directory: Path, exponent: Decimal) -> tuple[Dataset, SkewedColumns]:
    """Open the plain data once in each process."""
    plain = Dataset.open(directory)
    return plain, SkewedColumns(plain, exponent)


def _chunk(plain: Dataset, task: RewriteTask) -> Chunk:
    return plain.manifest.relations[task.relation].chunks[task.number]


def _files(plain: RelationFiles, written: Sequence[WrittenChunk]) -> RelationFiles:
    """Return the files of a relation: those that were written, or the plain ones."""
    if not written:
        return plain
    bounds = {name: merged([each.bounds[name] for each in written]) for name in written[0].bounds}
    return RelationFiles(tuple(each.chunk for each in written), {**plain.bounds, **bounds}, plain.dictionaries)
