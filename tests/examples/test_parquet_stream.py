"""The example that maintains a query of SQL over Parquet files: answers, batches, changes and errors."""

from __future__ import annotations

import datetime as dt
import importlib.util
import random
import re
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.paths import ROOT

from deltamark.errors import DeltamarkError

PRICE = pa.decimal128(9, 2)

FILE = ROOT / "examples" / "parquet_stream.py"

QUERY = """
SELECT city, count(*) AS sold, sum(price) AS revenue, avg(price) AS mean, max(day) AS latest, count(price) AS priced
FROM sales JOIN shops ON sales.shop = shops.shop WHERE day >= DATE '2001-01-10' OR price IS NULL
GROUP BY city ORDER BY sold DESC, city
"""


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("parquet_stream", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sales(seed, rows=300):
    draw = random.Random(seed)
    return pa.table({
        "shop": pa.array([draw.choice([1, 2, 3, 4, None]) for _ in range(rows)], pa.int16()),
        "price": pa.array([draw.choice([None, Decimal(draw.randrange(999)) / 4]) for _ in range(rows)], PRICE),
        "day": [dt.date(2001, 1, 1) + dt.timedelta(days=draw.randrange(20)) for _ in range(rows)],
        "sold_at": [dt.datetime(2001, 1, 1)] * rows,  # noqa: DTZ001 (the query does not read it)
    })  # fmt: skip


SHOPS = pa.table(
    {"shop": pa.array([1, 2, 3], pa.int64()), "city": pa.array(["Bonn", "Cork", "Bonn"]).dictionary_encode()}
)


def write(place, changes=None, seed=1):
    """Write the files of the query."""
    (place / "query.sql").write_text(QUERY)
    pq.write_table(SHOPS, place / "shops.parquet")
    rows = sales(seed)
    pq.write_table(rows.slice(0, 200), place / "a.parquet", row_group_size=70)
    pq.write_table(rows.slice(200), place / "b.parquet")
    if changes is not None:
        pq.write_table(changes, place / "changes.parquet")
    return ["query.sql", "sales=a.parquet,b.parquet", "shops=shops.parquet"]


def shown(capsys):
    """Return the printed table, without the line about the speed."""
    first, *table = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"[\d,]+ rows in [\d,]+ batches: [\d,]+ rows/s, the slowest batch [\d.]+ ms", first)
    return table


@pytest.mark.parametrize("seed", range(5))
def test_the_answer_does_not_depend_on_batches(example, place, capsys, seed):
    words = write(place, seed=seed)
    tables = []
    for batch in ("1", "7", "64", "1000"):
        assert example.run([*words, "--batch", batch]) == 0
        tables.append(shown(capsys))
    assert tables == [tables[0]] * 4
    assert tables[0][0].split() == ["city", "sold", "revenue", "mean", "latest", "priced"]
    assert [line.split()[0] for line in tables[0][2:4]] == ["Bonn", "Cork"]
    assert tables[0][-1] == "2 rows; DuckDB has the same answer"


@pytest.mark.parametrize("seed", range(3))
def test_changes_give_the_answer_over_the_remaining_rows(example, place, capsys, seed):
    rows, gone = sales(1), random.Random(seed).sample(range(300), 120)
    left = rows.take([at for at in range(300) if at not in gone])
    inserts = rows.append_column("diff", pa.array([1] * 300, pa.int8()))
    retracts = rows.take(gone).append_column("diff", pa.array([-1] * 120, pa.int8()))
    twice = left.take([0]).append_column("diff", pa.array([2], pa.int8()))
    words = write(place, pa.concat_tables([inserts, retracts, twice]))
    pq.write_table(pa.concat_tables([left, left.take([0, 0])]), place / "left.parquet")
    assert example.run(["query.sql", "sales=changes.parquet", words[2], "--weight", "sales.diff", "--batch", "50"]) == 0
    changed = shown(capsys)
    assert example.run(["query.sql", "sales=left.parquet", words[2]]) == 0
    assert shown(capsys) == changed


def test_all_columns_are_read_by_a_star(example, place, capsys):
    write(place)
    (place / "query.sql").write_text("SELECT s.* FROM shops s WHERE shop > 1")
    assert example.run(["query.sql", "shops=shops.parquet"]) == 0
    assert [line.split() for line in shown(capsys)[2:4]] == [["2", "Cork"], ["3", "Bonn"]]
    (place / "query.sql").write_text("SELECT * FROM sales")
    with pytest.raises(DeltamarkError, match=r"sales.sold_at timestamp\[us\]; cast it to DATE"):
        example.run(["query.sql", "sales=a.parquet"])


def test_a_wrong_answer_has_its_own_exit_code(example, place, capsys, monkeypatch):
    monkeypatch.setattr(example, "recompute", lambda *_: [("Bonn", 1, None, None, None, 0)])
    assert example.run(write(place)) == 1
    assert "WRONG: the answer differs from DuckDB's" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["none.sql", "sales=a.parquet"], "cannot read or write: none.sql: No such file"),
        (["query.sql", "sales=none.parquet"], "cannot read or write: none.parquet: No such file"),
        (["query.sql", "sales=query.sql"], "not a Parquet file: query.sql"),
        (["query.sql", "sales=a.parquet"], "unknown relation: shops"),
        (["query.sql", "sales"], "not a table: sales; write TABLE=FILE"),
        (["query.sql", "sales=a.parquet", "--weight", "sales.dif"], "unknown column of sales: dif; there are day"),
        (
            ["query.sql", "sales=a.parquet", "--weight", "sale.diff"],
            "unknown table of --weight: sale; did you mean sales",
        ),
        (["query.sql", "sales=a.parquet", "--weight", "diff"], "unknown table of --weight: no name"),
        (["query.sql", "sales=a.parquet", "--weight", "sales.day"], "values that a column cannot have: day: date32"),
        (["query.sql", "sales=a.parquet", "shops=shops.parquet", "--batch", "0"], "not a number of rows per batch: 0"),
    ],
)
def test_mistakes_are_errors_of_one_line(example, place, words, problem):
    write(place)
    with pytest.raises(DeltamarkError) as error:
        example.run(words)
    assert problem in str(error.value)


def run(*words):
    process = subprocess.run([sys.executable, FILE, *words], capture_output=True, text=True, check=False)
    return process.returncode, process.stdout, process.stderr


def test_the_program_explains_itself_and_its_errors():
    code, out, _ = run("--help")
    assert code == 0
    assert out.startswith("usage: parquet_stream.py")
    assert "DuckDB answers\nthe query over the rows that are live then" in out
    code, out, errors = run("none.sql", "sales=none.parquet")
    assert (code, out) == (1, "")
    assert re.fullmatch("error: cannot read or write: none.sql: .*\n", errors)
