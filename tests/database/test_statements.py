"""Statements of a text, and the clauses of a change."""

from __future__ import annotations

import pytest

from deltamark.database.statements import Change, change_of, given, statements


def texts(text):
    return [each.text for each in statements(text)]


def change(text) -> Change:
    (statement,) = statements(text)
    found = change_of(statement)
    assert found is not None
    return found


def test_a_text_is_divided_at_semicolons_of_its_own():
    assert texts("SELECT 1;; SELECT ';' -- a; b\n, \"a;b\" /* ; */ ; $$;$$; $x$ ; $$ $x$;E'\\';'") == [
        "SELECT 1", "SELECT ';' -- a; b\n, \"a;b\"", "$$;$$", "$x$ ; $$ $x$", "E'\\';'",
    ]  # fmt: skip
    assert texts(" ; -- nothing") == []
    assert texts("SELECT 'open") == ["SELECT 'open"]


@pytest.mark.parametrize(
    ("text", "kind", "table", "body", "returning"),
    [
        ("INSERT INTO t VALUES (1)", "INSERT", "t", "INSERT INTO t VALUES (1)", ""),
        ("insert into main.T(a) select 1 returning a, b", "INSERT", "T", "insert into main.T(a) select 1 ", "a, b"),
        ('WITH x AS (SELECT 1) INSERT INTO "a b" FROM x', "INSERT", "a b", None, ""),
        ("DELETE FROM t WHERE a IN (SELECT 1) RETURNING *", "DELETE", "t", "DELETE FROM t WHERE a IN (SELECT 1) ", "*"),
        ("TRUNCATE TABLE t", "DELETE", "t", "DELETE FROM t", ""),
        ("TRUNCATE t", "DELETE", "t", "DELETE FROM t", ""),
        ("MERGE INTO t USING u ON a = b WHEN MATCHED THEN DELETE", "MERGE", "t", None, ""),
        ("UPDATE t SET a = 1", "UPDATE", "t", "UPDATE t SET a = 1", ""),
    ],
)  # fmt: skip
def test_changes_have_a_table_and_clauses(text, kind, table, body, returning):
    found = change(text)
    assert (found.kind, found.table, found.body.rstrip(), found.returning) == (
        kind,
        table,
        (body or text).rstrip(),
        returning,
    )


@pytest.mark.parametrize(
    "text", ["SELECT 1", "WITH x AS (SELECT 1) SELECT * FROM x", "CREATE TABLE t (a INTEGER)", "FROM t"]
)
def test_other_statements_are_no_changes(text):
    (statement,) = statements(text)
    assert change_of(statement) is None


@pytest.mark.parametrize(
    ("text", "matches", "by_rowid"),
    [
        (
            "UPDATE t SET a = ?, b = ? WHERE c = ?",
            "SELECT t.rowid AS place FROM t WHERE c = $3",
            "UPDATE t SET a = $1, b = $2 WHERE t.rowid",
        ),
        ("UPDATE t AS k SET a = 1", "SELECT k.rowid AS place FROM t AS k", "UPDATE t AS k SET a = 1 WHERE k.rowid"),
        (
            "UPDATE t k SET a = 1 FROM u, v WHERE u.b = k.b",
            "SELECT k.rowid AS place FROM t k, u, v WHERE u.b = k.b",
            "",
        ),
        (
            "UPDATE t SET a = b IS DISTINCT FROM c WHERE d",
            "SELECT t.rowid AS place FROM t WHERE d",
            "UPDATE t SET a = b IS DISTINCT FROM c WHERE t.rowid",
        ),
        (
            "WITH x AS (SELECT ?) UPDATE t SET a = ? WHERE b IN (FROM x) RETURNING a",
            "WITH x AS (SELECT $1) SELECT t.rowid AS place FROM t WHERE b IN (FROM x)",
            "WITH x AS (SELECT $1) UPDATE t SET a = $2 WHERE t.rowid",
        ),
    ],
)
def test_an_update_has_a_query_of_its_rows(text, matches, by_rowid):
    found = change(text)
    assert (" ".join(found.matches.split()), " ".join(found.by_rowid.split())) == (matches, by_rowid)


def test_an_update_with_a_plain_condition_has_a_query_of_its_old_rows():
    assert change("UPDATE t AS k SET a = f(1) WHERE b = ? AND c").old.split() == (
        ["SELECT", "k.*", "FROM", "t", "AS", "k", "WHERE", "b", "=", "$1", "AND", "c"]
    )
    assert change("UPDATE t SET a = 1").old.split() == ["SELECT", "t.*", "FROM", "t"]
    for text in ("UPDATE t SET a = 1 WHERE random() < b", "UPDATE t SET a = 1 FROM u WHERE b"):
        assert change(text).old == ""


@pytest.mark.parametrize(
    ("text", "assigned"),
    [
        ('UPDATE t SET a = 1, "B c" = (SELECT x = 2), d = e', {"a", "b c", "d"}),
        ("UPDATE t SET (a, b) = (1, 2)", None),
        ("INSERT INTO t VALUES (1) ON CONFLICT (k) DO UPDATE SET A = excluded.k WHERE true", {"a"}),
        ("INSERT OR REPLACE INTO t VALUES (1)", set()),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", None),
    ],
)
def test_a_change_of_rows_that_exist_has_the_columns_that_it_assigns(text, assigned):
    assert change(text).assigned == assigned
    assert change(text).replaces == (text.startswith("INSERT") and assigned is not None)


def test_a_part_of_a_statement_gets_its_own_parameters():
    assert given([1, 2, 3], "SELECT $1, $3, '$2'") == {"1": 1, "3": 3}
    assert given({"a": 1, "b": 2}, "SELECT $b") == {"b": 2}
    assert given(None, "SELECT 1") == {}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("WITH x AS (DELETE FROM t RETURNING *) FROM x", "DELETE"),
        ("WITH x AS MATERIALIZED ( INSERT INTO t VALUES (1)) SELECT 1", "INSERT"),
        ("WITH x AS (SELECT update FROM t) SELECT (delete) FROM x", None),
    ],
)
def test_changes_in_a_with_clause_are_found(text, word):
    (statement,) = statements(text)
    assert statement.hidden_change == word
