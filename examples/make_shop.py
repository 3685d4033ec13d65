"""Write the three Parquet files of the benchmark in examples/shop: products, orders and their lines.

Orders are placed, shipped a few days later, and some of them cancelled; prices change. Every table has the time of each
change, by which the benchmark lets it arrive: orders as insertions, updates and deletions, products the same, and lines
with weights of 1 and -1. The price of a line is a DOUBLE, and the time of an order a TIMESTAMP. Rows are made of
remainders, so they are the same on every machine.

    python examples/make_shop.py            # or with a number of orders: ... 100000
    make bench BENCHMARK=examples/shop
"""

from __future__ import annotations

import argparse
from pathlib import Path

import duckdb

FOLDER = Path(__file__).parent / "shop"
ORDERS, PRODUCTS = 20_000, 200

TABLES = """
CREATE TABLE o AS SELECT
    i AS order_id, i * 7919 % 997 AS customer_id, TIMESTAMP '2025-01-01' + INTERVAL (i * 17) MINUTE AS placed,
    i * 31 % 10 AS luck, 1 + i * 13 % 4 AS lines, 1 + i * 5 % 6 AS days
FROM range($orders) t(i);

CREATE TABLE products AS SELECT * FROM (
    SELECT TIMESTAMP '2025-01-01' AS changed, 'insert' AS op, i AS product_id,
        ['lamp', 'chair', 'desk', 'shelf', 'rug', 'vase', 'mirror'][1 + i % 7] || ' ' || i AS name,
        CASE WHEN i % 9 > 0 THEN ['light', 'seat', 'table', 'store'][1 + i % 4] END AS category,
        (5 + i * 37 % 400 + 0.99)::DECIMAL(9, 2) AS price
    FROM range($products) t(i)
    UNION ALL
    SELECT TIMESTAMP '2025-02-01' + INTERVAL (i * 3) HOUR, 'update', i,
        ['lamp', 'chair', 'desk', 'shelf', 'rug', 'vase', 'mirror'][1 + i % 7] || ' ' || i,
        CASE WHEN i % 9 > 0 THEN ['light', 'seat', 'table', 'store'][1 + i % 4] END,
        (6 + i * 37 % 400 + 0.49)::DECIMAL(9, 2)
    FROM range($products) t(i) WHERE i % 3 = 0
) ORDER BY changed, product_id;

CREATE TABLE orders AS SELECT
    changed, op, order_id, customer_id, placed, placed::DATE AS placed_on, shipped_on, status
FROM (
    SELECT placed AS changed, 'insert' AS op, *, NULL::DATE AS shipped_on, 'new' AS status FROM o
    UNION ALL
    SELECT placed + INTERVAL (days) DAY, 'update', *, placed::DATE + days::INTEGER, 'shipped' FROM o WHERE luck > 1
    UNION ALL
    SELECT placed + INTERVAL 8 DAY, 'delete', *, NULL, 'new' FROM o WHERE luck = 0
) ORDER BY changed, order_id;

CREATE TABLE lines AS SELECT
    changed, weight, order_id, number, product_id, quantity,
    (5 + product_id * 37 % 400 + 0.99)::DOUBLE AS price, discount
FROM (
    SELECT placed AS changed, 1 AS weight, o.*, unnest(range(lines)) + 1 AS number FROM o
    UNION ALL
    SELECT placed + INTERVAL 8 DAY, -1, o.*, unnest(range(lines)) + 1 FROM o WHERE luck = 0
), LATERAL (
    SELECT (order_id * 41 + number * 11) % $products AS product_id, 1 + (order_id + number) % 5 AS quantity,
        CASE WHEN order_id % 4 = 0 THEN ((order_id % 5) * 0.05)::DECIMAL(3, 2) END AS discount
) ORDER BY changed, order_id, number;
"""


def make(folder: Path, orders: int = ORDERS) -> None:
    """Write the files of the tables into a folder."""
    with duckdb.connect() as connection:
        for statement in TABLES.replace("$orders", str(orders)).replace("$products", str(PRODUCTS)).split(";\n\n"):
            connection.execute(statement)
        for table in ("products", "orders", "lines"):
            connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("orders", type=int, nargs="?", default=ORDERS, help="number of orders (default: %(default)s)")
    make(FOLDER, parser.parse_args().orders)
