"""Law of the database: after every commit each view has the rows that DuckDB computes, whatever was done before.

The changes of each view, since it was created or the database was opened, sum up to the same rows.
"""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from support.database.twins import Twins
from support.paths import ROOT

from deltamark import DeltamarkError

TABLES = """
CREATE TABLE products (product_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, category VARCHAR, price DECIMAL(9, 2));
CREATE TABLE orders (
    order_id BIGINT PRIMARY KEY, customer_id INTEGER, placed TIMESTAMP NOT NULL, placed_on DATE, shipped_on DATE,
    status VARCHAR DEFAULT 'new'
);
CREATE TABLE lines (
    order_id BIGINT, number INTEGER NOT NULL, product_id INTEGER, quantity INTEGER, price DOUBLE, discount DECIMAL(3, 2)
);
"""

QUERIES = {file.stem: file.read_text() for file in sorted((ROOT / "examples" / "shop").glob("*.sql"))}
"""The queries of the shop."""

OVER_VIEWS = {
    "rich": ("best_customers", "SELECT customer_id FROM best_customers WHERE spent > 100"),
    "share": (
        "revenue_by_category",
        """SELECT category, revenue * 1.0 / (SELECT sum(revenue) FROM revenue_by_category) AS share
        FROM revenue_by_category WHERE revenue > 0""",
    ),
    "named": ("labels", "SELECT o.status, count(*) AS parcels FROM labels JOIN orders o USING (order_id) GROUP BY ALL"),
}
"""Views over one of the others, by name."""

PRODUCTS, ORDERS = 12, 30
START = dt.datetime(2025, 1, 1)  # noqa: DTZ001 (in no time zone)


class Shop:
    """Draws changes of the shop, and makes them in two databases."""

    def __init__(self, twins: Twins, rng: random.Random) -> None:
        self.twins, self.rng = twins, rng

    def change(self) -> bool:
        """Make a change; return whether it succeeded."""
        return self.rng.choice([
            self.place, self.place, self.place, self.ship, self.cancel, self.price, self.insert_lines,
            self.delete_lines, self.upsert_products, self.replace_product, self.discount, self.merge, self.fail,
            self.clear,
        ])()  # fmt: skip

    def order(self) -> int:
        return self.rng.randrange(ORDERS)

    def line(self, order: int) -> dict[str, object]:
        number, quantity = self.rng.randrange(1, 4), self.rng.randrange(1, 9)
        return {
            "order_id": order, "number": number, "product_id": self.rng.randrange(PRODUCTS), "quantity": quantity,
            "price": self.rng.randrange(1, 40) / 4, "discount": self.rng.choice([None, 0.05, 0.1]),
        }  # fmt: skip

    def place(self) -> bool:
        order, day = self.order(), self.rng.randrange(40)
        placed = START + dt.timedelta(days=day, minutes=self.rng.randrange(1440))
        text = "INSERT INTO orders (order_id, customer_id, placed, placed_on) VALUES (?, ?, ?, ?)"
        if not self.twins.run(text, [order, self.rng.randrange(8), placed, placed.date()]):
            return False  # there is such an order
        line = self.line(order)
        return self.twins.run("INSERT INTO lines VALUES ($1, $2, $3, $4, $5, $6)", list(line.values()))

    def ship(self) -> bool:
        text = "UPDATE orders SET status = 'shipped', shipped_on = placed_on + ? WHERE order_id = ? AND status = ?"
        return self.twins.run(text, [self.rng.randrange(6), self.order(), "new"])

    def cancel(self) -> bool:
        order = self.order()
        self.twins.run(
            "DELETE FROM lines USING orders WHERE lines.order_id = orders.order_id AND orders.order_id = ?", [order]
        )
        return self.twins.run("DELETE FROM orders WHERE order_id = ?", [order])

    def price(self) -> bool:
        text = "UPDATE lines SET price = p.price FROM products p WHERE p.product_id = lines.product_id AND number = ?"
        return self.twins.run(text, [self.rng.randrange(1, 4)])

    def discount(self) -> bool:
        text = "WITH few AS (SELECT order_id FROM orders WHERE customer_id < ?) "
        text += "UPDATE lines AS l SET discount = coalesce(l.discount, 0) + 0.01, quantity = quantity + 1 "
        text += "WHERE l.order_id IN (FROM few) AND l.discount IS DISTINCT FROM 0.5"
        return self.twins.run(text, [self.rng.randrange(3)])

    def insert_lines(self) -> bool:
        rows = [self.line(self.order()) for _ in range(self.rng.randrange(4))]
        if rows:
            self.twins.ours.insert("lines", self.rng.choice([list, pd.DataFrame, pa.Table.from_pylist])(rows))
        for row in rows:
            self.twins.theirs.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?, ?)", list(row.values()))
        return True

    def delete_lines(self) -> bool:
        rows = self.twins.theirs.sql("SELECT * FROM lines ORDER BY ALL").fetchall()
        few = self.rng.sample(rows, min(len(rows), 2))
        if not few:
            return True
        names = ("order_id", "number", "product_id", "quantity", "price", "discount")
        wrong = self.rng.random() < 0.2
        gone = {"order_id": -1, "number": 1, "product_id": 1, "quantity": 1, "price": 1.0, "discount": None}
        given = [dict(zip(names, row, strict=True)) for row in few] + [gone] * wrong
        if wrong:
            with pytest.raises(DeltamarkError, match=r"not there: lines: -1, 1, 1, 1, 1\.0, NULL; nothing was"):
                self.twins.ours.delete("lines", given)
            return self.failed()
        assert self.twins.ours.delete("lines", given) == len(few)
        same = " AND ".join(f"{name} IS NOT DISTINCT FROM ?" for name in names)
        for row in few:
            one = f"SELECT min(rowid) FROM lines WHERE {same}"
            self.twins.theirs.execute(f"DELETE FROM lines WHERE rowid = ({one})", list(row))
        return True

    def failed(self) -> bool:
        """Let the transaction of DuckDB fail, as ours has."""
        try:
            self.twins.theirs.execute("SELECT error('as ours')")
        except duckdb.Error:
            return False
        return True

    def upsert_products(self) -> bool:
        ids = self.rng.sample(range(PRODUCTS), 3)
        rows = [{"product_id": each, "name": f"thing {each}", "price": self.rng.randrange(800) / 4} for each in ids]
        assert self.twins.ours.upsert("products", pa.Table.from_pylist(rows)) == len(rows)
        for row in rows:
            text = "INSERT INTO products (product_id, name, price) VALUES (?, ?, ?) "
            text += "ON CONFLICT DO UPDATE SET name = excluded.name, price = excluded.price"
            self.twins.theirs.execute(text, list(row.values()))
        return True

    def replace_product(self) -> bool:
        number = self.rng.randrange(PRODUCTS)
        category = self.rng.choice(["light", "seat", None])
        return self.twins.run(
            "INSERT OR REPLACE INTO products VALUES (?, ?, ?, 9.5)", [number, f"new {number}", category]
        )

    def merge(self) -> bool:
        text = (
            "MERGE INTO products USING (SELECT product_id, count(*) AS n FROM lines GROUP BY ALL) s USING (product_id) "
        )
        text += "WHEN MATCHED AND n > 2 THEN UPDATE SET price = price + 1 WHEN NOT MATCHED AND n > 1 THEN "
        return self.twins.run(f"{text} INSERT (product_id, name) VALUES (s.product_id, 'found')")

    def clear(self) -> bool:
        return self.twins.run("DELETE FROM orders WHERE order_id > ?", [self.rng.randrange(10, 3 * ORDERS)])

    def fail(self) -> bool:
        return self.twins.run(self.rng.choice([
            "INSERT INTO products VALUES (900, 'a', NULL, 1), (900, 'b', NULL, 1)",
            "UPDATE products SET name = NULL", "INSERT INTO lines (order_id) VALUES (1)", "SELECT * FROM nowhere",
            "UPDATE lines SET quantity = CAST('many' AS INTEGER)", "DELETE FROM nothing", "INSERT INTO",
        ]))  # fmt: skip

    def declare(self) -> None:
        """Create or drop a view."""
        twins, name = self.twins, self.rng.choice([*QUERIES, *OVER_VIEWS])
        over = [each for each, (below, _) in OVER_VIEWS.items() if below == name and each in twins.views]
        if name in twins.views:
            for each in [*over, name]:
                twins.drop(each)
            return
        if name in OVER_VIEWS and OVER_VIEWS[name][0] not in twins.views:
            twins.create(OVER_VIEWS[name][0], QUERIES[OVER_VIEWS[name][0]])
        twins.create(name, OVER_VIEWS[name][1] if name in OVER_VIEWS else QUERIES[name])


def run_transactions(seed: int, count: int, views: int, **options: Any) -> None:
    """Make some transactions, and check all views after each commit. options: those of the databases."""
    rng = random.Random(seed)
    with Twins(*TABLES.strip().split(";\n")[:-1], TABLES.strip().split(";\n")[-1].rstrip(";"), **options) as twins:
        shop = Shop(twins, rng)
        for _ in range(views):
            shop.declare()
        for _ in range(count):
            transact(shop, rng)
            twins.check()
            if rng.random() < 0.03:
                shop.declare()
            if options and rng.random() < 0.05:
                twins.restart()
        twins.check("products", "orders", "lines")


def transact(shop: Shop, rng: random.Random) -> None:
    twins = shop.twins
    if rng.random() < 0.5:
        shop.change()
        return
    twins.run("BEGIN")
    succeeded = all(shop.change() for _ in range(rng.randrange(1, 6)))
    twins.run("COMMIT" if succeeded and rng.random() < 0.8 else "ROLLBACK")


@pytest.mark.parametrize("seed", [1, 2])
def test_views_are_equal_to_those_of_duckdb_after_every_commit(seed):
    run_transactions(seed, count=150, views=8)


@pytest.mark.draws(1, of="durable")
@pytest.mark.parametrize("seed", range(3, 6))
@pytest.mark.parametrize("durable", [False, True])
def test_views_are_equal_to_those_of_duckdb_over_restarts(tmp_path, durable, seed):
    run_transactions(seed, count=60, views=4, folder=tmp_path, durable=durable)
