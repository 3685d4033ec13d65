"""A connection: parameters, transactions by methods, errors, threads, and views that are loaded anew."""

from __future__ import annotations

import doctest
import threading
from decimal import Decimal

import pytest

from deltamark import DeltamarkError, connect
from deltamark.database import connection, cursor, frames, result, subscriptions
from deltamark.database.store import Store
from deltamark.dataflow.runtime.dataflow import Dataflow


@pytest.fixture
def con():
    with connect() as found:
        found.execute("CREATE TABLE sales (shop INTEGER, price DECIMAL(9, 2))")
        found.execute("CREATE VIEW revenue AS SELECT shop, sum(price) AS revenue FROM sales GROUP BY shop")
        yield found


def test_examples_say_what_they_print():
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    with connect() as con:
        con.execute("CREATE TABLE sales (shop INTEGER, price DECIMAL(9, 2))")
        con.insert("sales", [{"shop": 7, "price": 6}, {"shop": 6, "price": 4}, {"shop": 7, "price": 9}])
        for module in (connection, cursor, frames, result, subscriptions):
            for test in doctest.DocTestFinder().find(module, extraglobs={"con": con}):
                runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_parameters_have_places_or_names(con):
    con.execute("INSERT INTO sales VALUES (?, ?)", [7, 1.5])
    con.execute("INSERT INTO sales VALUES ($2, $1)", [2.5, 8])
    con.execute("INSERT INTO sales VALUES ($shop, $price)", {"shop": 9, "price": None})
    con.execute("UPDATE sales SET price = price + ? WHERE shop = ? OR shop = ?", (10, 7, 9))
    con.execute("UPDATE sales SET price = $more WHERE price IS NULL AND shop IN ($a, $b)", {"a": 1, "b": 9, "more": 4})
    con.execute("WITH few AS (SELECT ? AS shop) DELETE FROM sales USING few WHERE sales.shop = few.shop", [8])
    assert sorted(con.execute("FROM revenue WHERE revenue > ?", [1]).fetchall()) == [(7, 11.5), (9, 4)]
    assert con.execute("INSERT INTO sales VALUES (?, 1) RETURNING shop + 2", [1]).fetchall() == [(3,)]
    con.executemany("INSERT INTO sales VALUES (?, ?)", [(5, 1), (5, 2)])
    assert con.execute("SELECT revenue FROM revenue WHERE shop = 5").fetchall() == [(3,)]


def test_wrong_parameters_are_refused(con):
    for text, parameters in (
        ("SELECT ?", None),
        ("SELECT ?", [1, 2]),
        ("SELECT $a", {"b": 1}),
        ("SELECT 1; SELECT ?", [1]),
    ):
        with pytest.raises(DeltamarkError):
            con.execute(text, parameters)
    with pytest.raises(DeltamarkError, match="not one statement: 0 statements"):
        con.execute(" -- nothing\n")
    with pytest.raises(DeltamarkError, match="not a text of SQL: a value of type int"):
        con.execute(5)


def test_a_block_is_a_transaction(con):
    with con.transaction():
        con.insert("sales", [{"shop": 1, "price": 1}])
        with con.transaction():
            con.execute("INSERT INTO sales VALUES (1, 2)")
        assert con.execute("FROM revenue").fetchall() == []
    assert con.execute("FROM revenue").fetchall() == [(1, 3)]
    with pytest.raises(DeltamarkError), con.transaction():
        con.execute("DELETE FROM sales; SELEC 1")
    con.begin()
    con.execute("DELETE FROM sales")
    con.rollback()
    assert (
        con.execute("FROM revenue").fetchall()
        == con.execute("SELECT shop, sum(price) FROM sales GROUP BY 1").fetchall()
    )


def test_an_error_names_the_statement_and_changes_nothing(con):
    con.execute("INSERT INTO sales VALUES (1, 1)")
    with pytest.raises(
        DeltamarkError, match=r"refuses a statement: .*in: INSERT INTO sales VALUES \(2, 'x'\); nothing was"
    ):
        con.execute("INSERT INTO sales VALUES (2, 'x')")
    with pytest.raises(DeltamarkError, match="unknown table: sale; did you mean sales"):
        con.insert("sale", [])
    assert con.execute("FROM revenue").fetchall() == [(1, 1)]


def test_a_view_that_cannot_follow_a_commit_is_named_and_all_go_on(con):
    con.execute("CREATE VIEW squares AS SELECT shop, (price * price) * (price * price) AS square FROM sales")
    con.execute("CREATE VIEW others AS SELECT count(*) AS n FROM sales")
    con.execute("INSERT INTO sales VALUES (1, 2)")
    for _ in range(2):
        with pytest.raises(
            DeltamarkError, match="view squares cannot follow a change: a number needs more than 64 bits"
        ):
            con.insert("sales", [{"shop": 2, "price": 99_999}])
        assert con.execute("SELECT square FROM squares").fetchall() == [(16,)]
        assert con.execute("FROM others").fetchall() == [(1,)]
        assert con.execute("SELECT count(*) FROM sales").fetchall() == [(1,)]
    con.execute("DROP VIEW squares")
    con.insert("sales", [{"shop": 2, "price": 99_999}])
    assert con.execute("FROM others").fetchall() == [(2,)]


def fail_within(self, batches):
    self._plans.use(lambda plans: plans.worker.fail(KeyboardInterrupt()))
    raise KeyboardInterrupt(str(batches))


def feed_and_fail(self, batches, feed=Dataflow.feed):
    feed(self, batches)
    raise KeyboardInterrupt


def commit_and_fail(self):
    raise KeyboardInterrupt(str(self.transaction))


INTERRUPTS = {
    "within": (Dataflow, "feed", fail_within),
    "after": (Dataflow, "feed", feed_and_fail),
    "before the tables": (Store, "commit", commit_and_fail),
}


@pytest.mark.parametrize("name", INTERRUPTS)
def test_an_interrupt_within_a_commit_changes_nothing(con, monkeypatch, name):
    con.execute("INSERT INTO sales VALUES (1, 2)")
    with monkeypatch.context() as patch:
        patch.setattr(*INTERRUPTS[name])
        with pytest.raises(KeyboardInterrupt):
            con.execute("INSERT INTO sales VALUES (1, 5)")
    assert con.execute("FROM revenue").fetchall() == con.execute("FROM sales").fetchall() == [(1, 2)]
    con.execute("INSERT INTO sales VALUES (1, 5)")
    assert con.execute("FROM revenue").fetchall() == [(1, 7)]


def test_a_view_on_loaded_tables_shares_their_arrangements(monkeypatch):
    with connect() as con:
        con.execute("CREATE TABLE a (k INTEGER, x INTEGER); CREATE TABLE b (k INTEGER, y INTEGER)")
        con.insert("a", [{"k": each % 3, "x": each} for each in range(9)])
        con.insert("b", [{"k": 1, "y": 5}])
        con.execute("CREATE VIEW joined AS SELECT k, x, y FROM a JOIN b USING (k)")
        assert len(con.execute("FROM joined")) == 3
        monkeypatch.setattr(Store, "committed", None)  # no rows of tables are read
        con.execute("CREATE VIEW sums AS SELECT sum(x) AS x FROM a JOIN b USING (k)")
        assert con.execute("FROM sums").fetchall() == [(12,)]
        con.execute("UPDATE b SET k = 2")
        assert con.execute("FROM sums").fetchall() == [(15,)]
        plan = "\n".join(line for (line,) in con.execute("EXPLAIN sums").fetchall())
        assert "answer sums" in plan
        assert "answer joined" not in plan
        assert "arrangement by k" in plan


@pytest.mark.parametrize("key", ["", "PRIMARY KEY"])
def test_views_follow_conditions_that_find_other_rows_another_time(key):
    with connect() as con:
        con.execute(f"CREATE TABLE t (a INTEGER {key}, b INTEGER)")
        con.execute("CREATE VIEW v AS SELECT a, b FROM t")
        con.insert("t", [{"a": each, "b": 0} for each in range(100)])
        for number in range(1, 6):
            few = con.execute("UPDATE t SET b = b + ? WHERE a IN (SELECT a FROM t ORDER BY random() LIMIT 9)", [number])
            assert few.rowcount == 9
            con.execute("UPDATE t SET b = b + 1 WHERE random() < 0.5")
            con.execute("UPDATE t SET b = t.b + s.b FROM (SELECT a, b FROM t WHERE random() < 0.5) s WHERE s.a = t.a")
            con.execute("DELETE FROM t WHERE random() < 0.1")
            con.execute("INSERT INTO t SELECT ? + range, random() * 9 FROM range(5)", [1000 * number])
            assert sorted(con.execute("FROM v").fetchall()) == sorted(con.execute("FROM t").fetchall())


def test_threads_share_a_connection(con):
    def work(number):
        for _ in range(20):
            con.insert("sales", [{"shop": number, "price": 1}])
            con.execute("UPDATE sales SET price = price + 1 WHERE shop = ?", [number])

    threads = [threading.Thread(target=work, args=[number]) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(con.execute("FROM revenue").fetchall()) == [(number, sum(range(2, 22))) for number in range(3)]


def test_a_view_is_measured_by_itself(con):
    con.execute("INSERT INTO sales VALUES (1, 2), (1, 3), (2, 3)")
    for text in ("EXPLAIN ANALYZE revenue", "explain analyze view REVENUE"):
        plan = "\n".join(line for (line,) in con.execute(text).fetchall())
        assert "aggregate by shop" in plan
        assert "All operators took" in plan
    assert "took" not in str(con.execute("EXPLAIN revenue").fetchall())
    with pytest.raises(DeltamarkError, match="unknown view: revenues"):
        con.execute("EXPLAIN ANALYZE revenues")
    assert "analyzed_plan" in str(con.execute("EXPLAIN ANALYZE SELECT * FROM sales").fetchall())


def test_notebooks_show_tables_of_html(con):
    con.execute("INSERT INTO sales VALUES (1, 2)")
    names = "<tr><td>revenue</td><td>view</td><td>shop INTEGER, revenue DECIMAL(38,2)</td></tr>"
    assert names in con._repr_html_()
    html = con.execute("SELECT 'a < b' AS \"x & y\", NULL AS n FROM sales")._repr_html_()
    assert "<th>x &amp; y</th>" in html
    assert "<td>a &lt; b</td>" in html
    assert html.endswith("<p>1 row</p>")
    assert con.execute("DROP VIEW revenue")._repr_html_() == "<p>no rows</p>"


def test_nothing_can_be_done_after_close(con):
    assert repr(con) == "Connection; tables: sales; views: revenue"
    con.close()
    con.close()
    assert repr(con) == "Connection, closed"
    for do in (lambda: con.execute("SELECT 1"), lambda: con.insert("sales", []), con.begin):
        with pytest.raises(DeltamarkError, match="the database is closed"):
            do()


@pytest.mark.parametrize("workers", [2])
def test_several_workers_maintain_views(workers):
    with connect(workers=workers) as con:
        con.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        con.execute("CREATE VIEW v AS SELECT a, sum(b) AS b FROM t GROUP BY a")
        con.insert("t", [{"a": each % 7, "b": each} for each in range(1000)])
        con.execute("DELETE FROM t WHERE b > 900")
        expected = con.execute("SELECT a, sum(b) FROM t GROUP BY a ORDER BY a").fetchall()
        assert con.execute("SELECT a, b FROM v ORDER BY a").fetchall() == expected


def test_statements_read_registered_rows_and_views_do_not(con):
    con.execute("INSERT INTO sales VALUES (1, 5), (2, 6)")
    con.register("Limits", [{"shop": 1, "most": 4}])
    text = "SELECT shop, price FROM sales JOIN limits USING (shop) WHERE price > most"
    assert con.execute(text).fetchall() == [(1, 5)]
    con.execute("INSERT INTO sales SELECT * FROM limits")
    assert con.execute("SELECT revenue FROM revenue WHERE shop = 1").fetchall() == [(9,)]
    with pytest.raises(DeltamarkError, match="view w cannot be maintained"):
        con.execute(f"CREATE VIEW w AS {text}")
    assert "limits" not in [name for (name,) in con.execute("SHOW TABLES")]
    con.begin()
    con.register("limits", [{"shop": 2, "most": 4}])
    con.rollback()
    assert con.execute(text).fetchall() == [(2, 6)]
    con.unregister("LIMITS")
    con.unregister("limits")
    with pytest.raises(DeltamarkError, match="limits does not exist"):
        con.execute(text)


def test_a_name_is_that_of_registered_rows_a_table_or_a_view(con):
    for name in ("sales", "Revenue"):
        with pytest.raises(DeltamarkError, match="a table or a view has the name of registered rows"):
            con.register(name, [{"shop": 1}])
    con.register("few", [{"shop": 1}])
    for text in ("CREATE TABLE Few (shop INTEGER)", "CREATE VIEW Few AS SELECT * FROM sales"):
        with pytest.raises(DeltamarkError, match="registered rows have the name of a"):
            con.execute(text)
    assert con.execute("SHOW TABLES").fetchall() == [("revenue",), ("sales",)]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_copied_files_reach_the_views_and_can_be_undone(tmp_path, kind):
    file = tmp_path / f"sales.{kind}"
    with connect(tmp_path / "shop.db") as con:
        con.execute("CREATE TABLE sales (shop INTEGER DEFAULT 5, price DECIMAL(9, 2), twice INTEGER AS (2 * shop))")
        con.execute(
            "CREATE VIEW shops AS SELECT shop, sum(price) AS price, sum(twice) AS twice FROM sales GROUP BY ALL"
        )
        con.execute(f"COPY (SELECT * FROM (VALUES (1, 2.5), (NULL, 3)) t(shop, price)) TO '{file}'")
        assert con.execute(f"COPY main.sales FROM '{file}'").rowcount == 2
        con.execute(f"BEGIN; COPY sales FROM '{file}'; ROLLBACK")
        assert set(con.execute("FROM shops").fetchall()) == {(1, Decimal("2.50"), 2), (None, Decimal("3.00"), None)}
        con.execute(f"COPY (SELECT 7 AS price) TO '{file}'")
        con.execute(f"COPY sales (price) FROM '{file}'")
        assert (5, Decimal("7.00"), 10) in con.execute("FROM shops").fetchall()
        assert con.execute("SHOW TABLES").fetchall() == [("sales",), ("shops",)]
        with pytest.raises(DeltamarkError, match="No files found"):
            con.execute(f"COPY sales FROM '{tmp_path / 'none.csv'}'")
        con.execute(f"COPY sales (price) FROM '{file}'")
        assert (5, Decimal("14.00"), 20) in con.execute("FROM shops").fetchall()


@pytest.mark.parametrize("moment", ["now()", "current_date", "CURRENT_TIMESTAMP", "today()", "getvariable('x')"])
def test_a_view_that_changes_without_a_commit_is_refused(moment):
    with connect() as con:
        con.execute("CREATE TABLE days (day DATE); SET VARIABLE x = 5")
        with pytest.raises(DeltamarkError, match="view v cannot be maintained: it changes without a commit"):
            con.execute(f"CREATE VIEW v AS SELECT day FROM days WHERE {moment} IS NOT NULL")


def test_errors_have_the_names_that_duckdb_proposes():
    with connect() as con:
        con.execute("CREATE TABLE sales (shop INTEGER)")
        with pytest.raises(DeltamarkError, match='Did you mean "sales"'):
            con.execute("FROM sale")
        with pytest.raises(DeltamarkError, match='Candidate bindings: "shop"'):
            con.execute("SELECT shp FROM sales")


def test_views_may_be_qualified_and_described_by_pragmas():
    with connect() as con:
        con.execute("CREATE TABLE sales (shop INTEGER); CREATE VIEW main.shops AS SELECT DISTINCT shop FROM main.sales")
        assert con.execute("PRAGMA table_info('shops')").fetchall()[0][1:3] == ("shop", "INTEGER")
        assert len(con.execute("FROM pragma_table_info('shops')")) == 1
        con.execute("DROP VIEW main.shops")
        assert con.execute("SHOW VIEWS").fetchall() == []
