"""The skewed columns of orders and lines, as functions of their positions.

Customers and parts are drawn by Zipf's law. A line's supplier is drawn by the same law among the four that supply its
part, with their ranks among all suppliers. Prices follow from the parts, as in the specification. The ranking of keys
and the random number of a row do not depend on the exponent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cached_property

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.positions import array_of
from deltamark.datagen.skew.law import cumulated, drawn, ranking, uniform, weights

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
