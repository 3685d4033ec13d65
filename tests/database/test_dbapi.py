"""The database interface of Python, PEP 249: its compliance tests, kinds of errors, cursors, and tools that read."""

from __future__ import annotations

import datetime as dt
import doctest

import pandas as pd
import pytest

from deltamark import DeltamarkError, dbapi

dbapi20 = pytest.importorskip("dbapi20")


class TestCompliance(dbapi20.DatabaseAPI20Test):
    """The public tests of drivers. They name what a driver has to say for itself, below."""

    driver = dbapi

    def test_nextset(self):
        assert not hasattr(dbapi.Cursor, "nextset"), "optional: a text has one result"

    def test_setoutputsize(self):
        with dbapi.connect() as con, con.cursor() as cursor:
            cursor.setoutputsize(10, 0)

    def test_non_idempotent_close(self):
        con = dbapi.connect()
        con.close()
        con.close()  # does nothing, as files of Python do

    def test_ExceptionsAsConnectionAttributes(self):  # noqa: N802
        assert not hasattr(dbapi.Connection, "Error"), "optional"


@pytest.fixture
def con():
    with dbapi.connect() as found:
        found.execute("CREATE TABLE sales (shop INTEGER PRIMARY KEY, price DECIMAL(9, 2) NOT NULL)")
        found.execute("CREATE TABLE notes (note VARCHAR NOT NULL)")
        found.execute("CREATE VIEW total AS SELECT sum(price) AS price FROM sales")
        found.insert("sales", [{"shop": 7, "price": 2.5}])
        yield found


REFUSED = {
    "INSERT INTO sales VALUES (7, 1)": dbapi.IntegrityError,
    "INSERT INTO sales VALUES (8, NULL)": dbapi.IntegrityError,
    "INSERT INTO sales VALUES ('x', 1)": dbapi.DataError,
    "SELEC 1": dbapi.ProgrammingError,
    "SELECT * FROM sale": dbapi.ProgrammingError,
    "SELECT sho FROM sales": dbapi.ProgrammingError,
    "COMMIT": dbapi.ProgrammingError,
    "ATTACH 'x.db'": dbapi.NotSupportedError,
    "CREATE VIEW drawn AS SELECT random() AS x FROM sales": dbapi.NotSupportedError,
    "CREATE VIEW total AS SELECT 1": dbapi.ProgrammingError,
    "DROP TABLE sales": dbapi.ProgrammingError,
}


@pytest.mark.parametrize("text", REFUSED)
def test_errors_have_the_kinds_of_the_interface(con, text):
    with pytest.raises(REFUSED[text]) as raised:
        con.execute(text)
    assert type(raised.value) is REFUSED[text]
    assert isinstance(raised.value, dbapi.Error)
    assert dbapi.Error is DeltamarkError


def test_methods_have_the_kinds_of_errors_too(con):
    with pytest.raises(dbapi.IntegrityError):
        con.insert("notes", [{"note": None}])
    con.begin()
    with pytest.raises(dbapi.DataError):
        con.execute("INSERT INTO sales VALUES ('x', 1)")
    with pytest.raises(dbapi.OperationalError, match="a transaction that an error has ended"):
        con.commit()
    con.close()
    with pytest.raises(dbapi.ProgrammingError, match="the database is closed"):
        con.cursor()


def test_without_a_transaction_commit_and_rollback_do_nothing(con):
    con.commit()
    con.rollback()
    assert con.execute("FROM total").fetchall() == [(2.5,)]
    con.begin()
    con.execute("DELETE FROM sales")
    con.rollback()
    con.commit()
    assert con.execute("FROM total").fetchall() == [(2.5,)]


def test_each_cursor_has_its_own_rows(con):
    first, second = con.cursor(), con.cursor()
    first.execute("SELECT * FROM range(5) t(i) ORDER BY i")
    assert first.fetchone() == (0,)
    second.executemany("INSERT INTO sales VALUES (?, ?)", [(8, 1), (9, 2)])
    assert (second.rowcount, second.description) == (2, None)
    assert second.execute("FROM total").fetchall() == [(5.5,)]
    first.arraysize = 2
    assert (first.fetchmany(), list(first), first.fetchone()) == ([(1,), (2,)], [(3,), (4,)], None)
    assert second.execute("DELETE FROM sales RETURNING shop").description[0][:2] == ("shop", "INTEGER")


def test_a_cursor_whose_statement_has_failed_has_no_rows(con):
    cursor = con.cursor().execute("FROM sales")
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("SELEC 1")
    with pytest.raises(dbapi.ProgrammingError, match="no rows to fetch"):
        cursor.fetchall()


def test_types_of_columns_are_in_the_groups_of_the_interface(con):
    text = "SELECT 'a' AS a, 1.5 AS b, DATE '2025-01-01' AS c, NOW() AS d, '\\x00'::BLOB AS e, [1] AS f"
    types = [type_ for _, type_, *_ in con.execute(text).description]
    groups = (dbapi.STRING, dbapi.NUMBER, dbapi.DATETIME, dbapi.BINARY, dbapi.ROWID)
    found = [[group == type_ for group in groups].index(True) for type_ in types[:-1]]
    assert found == [0, 1, 2, 2, 3]
    assert not any(group == types[-1] for group in groups)
    assert dbapi.TimestampFromTicks(86_400.5) == dt.datetime.fromtimestamp(86_400)  # noqa: DTZ006


@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy")
def test_pandas_reads_by_the_interface(con):
    con.insert("sales", [{"shop": 8, "price": 4}])
    found = pd.read_sql("SELECT shop, price FROM sales WHERE price > ? ORDER BY shop", con, params=[3])
    assert found.to_dict("list") == {"shop": [8], "price": [4]}
    parts = pd.read_sql("SELECT i FROM range(5) t(i)", con, chunksize=2)
    assert [part["i"].tolist() for part in parts] == [[0, 1], [2, 3], [4]]


def test_examples_say_what_they_print(con):
    con.execute("CREATE OR REPLACE TABLE notes (shop INTEGER, price DECIMAL(9, 2))")
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(dbapi):
        runner.run(test)
    assert runner.summarize(verbose=False) == (0, 2)
