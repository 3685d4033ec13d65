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
    assert re.fullmatch(r"[\d,]+ rows in [\d,]+ batch(?:es)?: [\d,]+ rows/s, the slowest batch [\d.]+ ms", first)
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


def ask(example, place, capsys, query, table, *words):
    """Run a query over the file of a table `e`; return the exit code and the printed rows."""
    (place / "ask.sql").write_text(query)
    pq.write_table(table, place / "e.parquet")
    code = example.run(["ask.sql", "e=e.parquet", *words])
    return code, [line.split() for line in capsys.readouterr().out.splitlines()[1:]]


def changes(**columns):
    return pa.table({"a": pa.array([1, 2, 1], pa.int32()), **columns})


def test_the_answer_over_no_rows_is_that_of_empty_tables(example, place, capsys):
    (place / "ask.sql").write_text("SELECT count(*) AS c, sum(a) AS s FROM e")
    pq.write_table(changes().slice(0, 0), place / "e.parquet")
    assert example.run(["ask.sql", "e=e.parquet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 rows; DuckDB has the same answer"


@pytest.mark.parametrize("weight", ["diff", 'w"t', "of copies"])
@pytest.mark.parametrize("column", ["copy", "net", "range", "unnest"])
def test_columns_may_have_any_names(example, place, capsys, weight, column):
    weights = pa.array([2, 1, -1], pa.int8())
    table = changes(**{column: pa.array([7, 8, 7], pa.int32())}).append_column(weight, weights)
    code, printed = ask(
        example, place, capsys, f"SELECT a, {column} FROM e ORDER BY a", table, "--weight", f"e.{weight}"
    )
    assert (code, printed[2:4]) == (0, [["1", "7"], ["2", "8"]])


def test_a_timestamp_at_midnight_is_a_date(example, place, capsys):
    table = changes(d=[dt.date(2001, 2, 3)] * 3)
    code, printed = ask(
        example, place, capsys, "SELECT date_trunc('month', d) + INTERVAL 1 DAY AS m FROM e GROUP BY 1", table
    )
    assert (code, printed[2]) == (0, ["2001-02-02"])


BLOBS = pa.array([b"a", b"b", b"c"])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM e",
        "SELECT sum(a) AS f FROM e",
        "SELECT a AS f FROM e AS f WHERE a > 1",
        "SELECT count(*) AS n FROM (SELECT * FROM e WHERE a > 1) AS x",
    ],
)
def test_a_column_of_another_type_is_not_refused_unless_it_is_read(example, place, capsys, query):
    assert ask(example, place, capsys, query, changes(f=BLOBS))[0] == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT f FROM e",
        "SELECT max(F) AS s FROM e",
        "SELECT a FROM e WHERE \"f\" > 'a'::BLOB",
        "SELECT count(*) AS n FROM (SELECT DISTINCT * FROM e)",
        "SELECT count(e.f) AS n FROM e",
        "SELECT count(*) AS n FROM e AS x NATURAL JOIN e AS y",
    ],
)
def test_a_column_of_another_type_is_refused_if_it_is_read(example, place, capsys, query):
    with pytest.raises(DeltamarkError, match=r"a type that the engine does not have: e\.f binary"):
        ask(example, place, capsys, query, changes(f=BLOBS))


def test_another_problem_is_not_blamed_on_the_type_of_a_column(example, place, capsys):
    table = changes(f=BLOBS, date=[dt.datetime(2001, 1, 1)] * 3)  # noqa: DTZ001 (the query does not read it)
    for query, problem in (
        ("SELECT ntile(a) OVER () FROM e AS f", "not supported in SQL: the window function ntile"),
        ("SELECT b FROM e AS f WHERE a > year(DATE '2001-01-01')", 'not a query: Referenced column "b" not found'),
    ):
        with pytest.raises(DeltamarkError, match=problem):
            ask(example, place, capsys, query, table)


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ([1, 1, -2], "a row is retracted more often than it is inserted: e: the weights of a row sum to -1"),
        ([1, -1, 1], "a row is retracted more often than it is inserted: e: the weights of a row sum to -1"),
        ([2**62, 2**62, 2**62], f"too many live rows: e: {3 * 2**62:,}; give weights up to 1,000,000,000 in sum"),
        ([-(2**63), 1, 1], "a value outside its bounds: w"),
        ([-(2**62), -(2**62), -(2**62)], f"the weights of a row sum to {-(2**63)}"),
        ([1, None, 1], "missing values: w: 1 of them"),
    ],
)
def test_impossible_weights_are_errors(example, place, capsys, weights, problem):
    table = changes(w=pa.array(weights, pa.int64()))
    for query in ("SELECT sum(a) AS s FROM e", "SELECT max(a) AS s FROM e", "SELECT count(*) AS s FROM e WHERE a > 5"):
        with pytest.raises(DeltamarkError) as error:
            ask(example, place, capsys, query, table, "--weight", "e.w")
        assert problem in str(error.value)


def test_columns_with_the_same_name_are_an_error(example, place, capsys):
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DeltamarkError, match=r"several columns with the same name: e\.a"):
        ask(example, place, capsys, "SELECT a FROM e", table)


def test_files_may_have_names_that_sql_quotes(example, place, capsys):
    (place / "ask.sql").write_text("SELECT sum(a) AS s FROM e")
    (place / "a=1").mkdir()
    pq.write_table(changes(), place / "a=1" / "it's.parquet")
    assert example.run(["ask.sql", "e=a=1/it's.parquet"]) == 0
    assert capsys.readouterr().out.splitlines()[3].strip() == "4"


def test_all_columns_are_read_by_a_star(example, place, capsys):
    write(place)
    (place / "query.sql").write_text("SELECT s.* FROM shops s WHERE shop > 1")
    assert example.run(["query.sql", "shops=shops.parquet"]) == 0
    assert [line.split() for line in shown(capsys)[2:4]] == [["2", "Cork"], ["3", "Bonn"]]
    (place / "query.sql").write_text("SELECT * FROM sales")
    assert example.run(["query.sql", "sales=a.parquet"]) == 0


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
        (
            ["query.sql", "sales=a.parquet", "sales=b.parquet"],
            "a table is given twice: sales; write it once, as TABLE=",
        ),
        (
            ["query.sql", "sales=a.parquet", "--weight", "sales.a", "--weight", "sales.b"],
            "a table is given twice: sales; write it once",
        ),
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
