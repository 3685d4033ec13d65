"""The example that follows a view of the shop, in memory and over restarts of a database in a file."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest
from support.shop_examples import example, shop_files

DAYS, ORDERS = 12, 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the files and queries of a small shop."""
    return shop_files(tmp_path_factory.mktemp("shop"), ORDERS)


def expected(folder, view):
    """Return the rows of the view after some days, by DuckDB over the rows that are live then."""
    with duckdb.connect() as theirs:
        days = f"SELECT DISTINCT changed::DATE AS day FROM '{folder}/orders.parquet' ORDER BY day LIMIT {DAYS}"
        theirs.execute(f"CREATE TABLE days AS {days}")
        for table, key in (("products", "product_id"), ("orders", "order_id")):
            last = f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY changed DESC) = 1"
            theirs.execute(
                f"CREATE TABLE {table} AS FROM (FROM ({arrived(folder, table)}) {last}) WHERE op <> 'delete'"
            )
        lines = f"SELECT * EXCLUDE (changed, weight) FROM ({arrived(folder, 'lines')})"
        theirs.execute(f"CREATE TABLE lines AS {lines} GROUP BY ALL HAVING sum(weight) = 1")
        return Counter(theirs.sql((folder / f"{view}.sql").read_text()).fetchall())


def arrived(folder, table):
    return f"SELECT * FROM '{folder / table}.parquet' WHERE changed::DATE <= (SELECT max(day) FROM days)"


def summed(printed, width):
    """Return the rows that the printed changes sum up to, and the times of the commits."""
    total, times = Counter(), []
    for line in printed.splitlines():
        if line.startswith("commit "):
            times.append(int(line.split()[1]))
        cells = line.split()
        if len(cells) == width and cells[0].isdecimal():
            total[tuple(cells[2:])] += int(cells[1])
    return +total, times


@pytest.mark.parametrize("parts", [[DAYS], [1, 4, 0, DAYS - 5]])
def test_printed_changes_sum_up_to_the_view(folder, tmp_path, capsys, parts):
    follow_shop = example("follow_shop")
    for days in parts:
        capsys.readouterr()
        follow_shop.run(":memory:" if len(parts) == 1 else str(tmp_path / "shop.db"), follow_shop.VIEW, days, folder)
    total, times = summed(capsys.readouterr().out, width=6)
    assert times == list(range(parts[-1] + 1))
    rows = expected(folder, follow_shop.VIEW)
    assert total == Counter(tuple("NULL" if each is None else str(each) for each in row) for row in rows)
    assert len(total) > 2
