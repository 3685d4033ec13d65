"""A process that changes a database in a file until it is killed, and the same changes in a plain DuckDB.

Transaction n depends on n alone, and on the rows before it. The process prints a line when a commit or a checkpoint has
returned, and one before each checkpoint.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from deltamark import Connection, connect

TABLES = """
CREATE TABLE steps (number INTEGER);
CREATE TABLE sales (shop INTEGER, price DECIMAL(9, 2), note VARCHAR);
CREATE TABLE shops (shop INTEGER PRIMARY KEY, city VARCHAR NOT NULL);
"""

VIEWS = {
    "progress": "SELECT max(number) AS step, count(*) AS steps FROM steps",
    "revenue": "SELECT city, sum(price) AS revenue, count(*) AS n FROM sales JOIN shops USING (shop) GROUP BY city",
    "notes": "SELECT DISTINCT note FROM sales WHERE price > 20",
    "rich": "SELECT city FROM revenue WHERE revenue > 50",
}

SHOPS = 9
CHECKPOINT_EVERY, DECLARE_EVERY = 10, 7
"""The transactions between two checkpoints, and between two declarations."""


class Plain:
    """A plain DuckDB with the methods of a connection of ours that the transactions call."""

    def __init__(self) -> None:
        self.duckdb = duckdb.connect()
        self.duckdb.execute(TABLES)

    def execute(self, text: str, parameters: Sequence[object] | None = None) -> None:
        self.duckdb.execute(text, parameters)

    def insert(self, table: str, rows: pa.Table) -> None:
        self.duckdb.register("given", rows)
        self.duckdb.execute(f"INSERT INTO {table} BY NAME FROM given")

    def upsert(self, table: str, rows: pa.Table) -> None:
        self.duckdb.register("given", rows)
        self.duckdb.execute(f"INSERT OR REPLACE INTO {table} BY NAME FROM given")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.duckdb.execute("BEGIN")
        yield
        self.duckdb.execute("COMMIT")


def transact(target: Any, number: int) -> None:
    """Make transaction `number` in a database."""
    rng = Random(number)
    count = rng.choice([1, 2, 3, 3000])
    sales = pa.table({
        "shop": pa.array([rng.randrange(SHOPS) for _ in range(count)], pa.int32()),
        "price": pa.array([Decimal(rng.randrange(4000)) / 4 for _ in range(count)], pa.decimal128(9, 2)),
        "note": [f"note {rng.randrange(50)}" for _ in range(count)],
    })  # fmt: skip
    if number % 3:  # rows that wait, alone in their transaction, as far as views are concerned
        with target.transaction():
            target.insert("sales", sales)
            target.insert("steps", pa.table({"number": pa.array([number], pa.int32())}))
        return
    with target.transaction():
        target.execute("INSERT INTO steps VALUES (?)", [number])
        target.insert("sales", sales)
        target.upsert("shops", pa.table({"shop": [rng.randrange(SHOPS)], "city": [rng.choice(["Bonn", "Cork"])]}))
        target.execute("UPDATE sales SET price = price / 2 WHERE shop = ?", [rng.randrange(SHOPS)])
        target.execute("DELETE FROM sales WHERE shop = ?", [rng.randrange(SHOPS)])


def roll_back(connection: Connection) -> None:
    """Make changes, and undo them."""
    connection.begin()
    connection.execute("DELETE FROM steps; UPDATE sales SET price = 0")
    connection.rollback()


def filled(path: Path, *, durable: bool, steps: int) -> Connection:
    """Return a database in which some transactions were made."""
    connection = connect(path, durable=durable)
    connection.execute(TABLES)
    for name, text in VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {text}")
    for number in range(1, steps + 1):
        transact(connection, number)
    return connection


def check(connection: Connection, steps: int) -> None:
    """Compare all tables and views with those of a plain DuckDB after some transactions."""
    plain = Plain()
    for number in range(1, steps + 1):
        transact(plain, number)
    for name, text in VIEWS.items():
        plain.execute(f"CREATE VIEW {name} AS {text}")
    for name in ("steps", "sales", "shops", *VIEWS):
        found = connection.execute(f"FROM {name}").fetchall()
        assert Counter(found) == Counter(plain.duckdb.sql(f"FROM {name}").fetchall()), name


def write(path: str, *, durable: bool) -> None:
    """Change a database until the process is killed."""
    connection = connect(path, durable=durable)
    if not connection.execute("SHOW TABLES").fetchall():
        connection.execute(f"BEGIN; {TABLES}; COMMIT")
        connection.checkpoint()
    present = {name for (name, _) in connection.execute("SHOW VIEWS").fetchall()}
    for name, text in VIEWS.items():
        if name not in present:
            connection.execute(f"CREATE VIEW {name} AS {text}")
    number = connection.execute("SELECT coalesce(max(number), 0) FROM steps").fetchall()[0][0]
    print("opened", number, flush=True)
    while True:
        number += 1
        transact(connection, number)
        print("committed", number, flush=True)
        roll_back(connection)
        if number % DECLARE_EVERY == 0:
            connection.execute(f"CREATE OR REPLACE VIEW extra AS SELECT shop, {number} AS step FROM shops")
            print("declared", number, flush=True)
        if number % CHECKPOINT_EVERY == 0:
            print("saving", number, flush=True)
            connection.checkpoint()
            print("saved", number, flush=True)


if __name__ == "__main__":
    write(sys.argv[1], durable=sys.argv[2] == "durable")
