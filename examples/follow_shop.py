"""Follow a view of the shop: orders arrive day by day, and each day's changes of the view are printed.

    python examples/make_shop.py
    python examples/follow_shop.py                               # the revenue of each category
    python examples/follow_shop.py --view top_products --days 20
    python examples/follow_shop.py --database /tmp/shop.db       # run it again: it goes on where it has ended

The database is in memory, or in a file with a log of each transaction. A day is one transaction: if the program is
killed, no day is lost or arrives twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from threading import Thread

import deltamark

SHOP = Path(__file__).parent / "shop"
VIEW = "revenue_by_category"

TABLES = """
CREATE TABLE days (day DATE);
CREATE TABLE products (product_id BIGINT PRIMARY KEY, name VARCHAR, category VARCHAR, price DECIMAL(9, 2));
CREATE TABLE orders (
    order_id BIGINT PRIMARY KEY, customer_id BIGINT, placed TIMESTAMP, placed_on DATE, shipped_on DATE, status VARCHAR
);
CREATE TABLE lines (
    order_id BIGINT, number BIGINT, product_id BIGINT, quantity BIGINT, price DOUBLE, discount DECIMAL(3, 2)
)
"""

DAYS = """
SELECT DISTINCT changed::DATE FROM read_parquet(?) WHERE changed::DATE NOT IN (SELECT day FROM days) ORDER BY ALL
"""


def opened(database: str, folder: Path, view: str) -> deltamark.Connection:
    """Open the database; make its tables and the view if it is new."""
    con = deltamark.connect(database, durable=database != ":memory:")
    if not con.execute("SHOW TABLES").fetchall():
        con.execute(f"BEGIN; {TABLES}; COMMIT")
    if view not in [name for name, _ in con.execute("SHOW VIEWS")]:
        con.execute(f"CREATE VIEW {view} AS {(folder / view).with_suffix('.sql').read_text()}")
    return con


def arrive(con: deltamark.Connection, folder: Path, day: object) -> None:
    """Make the changes of one day, in one transaction."""

    def rows(table: str, condition: str) -> deltamark.Result:
        columns = "* EXCLUDE (changed, weight)" if table == "lines" else "* EXCLUDE (changed, op)"
        text = f"SELECT {columns} FROM read_parquet(?) WHERE changed::DATE = ? AND {condition}"
        return con.execute(text, [str(folder / f"{table}.parquet"), day])

    with con.transaction():
        con.insert("days", [{"day": day}])
        for table in ("products", "orders"):
            con.upsert(table, rows(table, "op <> 'delete'"))
        con.delete("orders", rows("orders", "op = 'delete'"))
        con.insert("lines", rows("lines", "weight = 1"))
        con.delete("lines", rows("lines", "weight = -1"))


def follow(changes: deltamark.Subscription) -> None:
    """Print the view, and then its changes, until the connection is closed."""
    for each in changes:
        print(f"commit {each.time}", each, sep="\n", end="\n\n")


def run(database: str, view: str, days: int, folder: Path = SHOP) -> None:
    """Let some days arrive, and follow the view meanwhile."""
    with opened(database, folder, view) as con:
        reader = Thread(target=follow, args=[con.subscribe(view, snapshot=True)])
        reader.start()
        for (day,) in con.execute(DAYS, [str(folder / "orders.parquet")]).fetchmany(days):
            arrive(con, folder, day)
    reader.join()  # it has read all changes when it ends


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", default=":memory:", help="path of a file (default: in memory)")
    parser.add_argument("--view", default=VIEW, help="name of a query in examples/shop (default: %(default)s)")
    parser.add_argument("--days", type=int, default=7, help="days that arrive (default: %(default)s)")
    arguments = parser.parse_args()
    run(arguments.database, arguments.view, arguments.days)
