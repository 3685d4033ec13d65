"""A text that is no supported query is refused in one line, which names the construct and its place.

The construct has the name by which the text calls it, also where DuckDB replaces it by others.
"""

from __future__ import annotations

import pytest

from deltamark import TEXT, DeltamarkError, code_type, date_type, integer, source, sql

RELATIONS = {
    "t": source(
        "t",
        {
            "a": integer(0, 100), "b": integer(0, 100).or_null(), "d": date_type(0, 100), "s": TEXT,
            "c": code_type(("AIR", "SHIP")), "wide": integer(0, 2**62),
        },
        rows=1000,
    ),
    "u": source("u", {"a": integer(0, 100), "x": integer(0, 100)}, rows=1000),
}  # fmt: skip

REFUSED = {
    "selec a from t": 'not a query: syntax error at or near "selec" (line 1, column 1)',
    "select a\nfrom tt": "unknown relation: tt (line 2, column 6); did you mean t",
    "select a, nosuch from t": 'not a query: Referenced column "nosuch" not found in FROM clause! (line 1, column 11)',
    "select aa from t": "did you mean a",
    "select nosuch(a) from t": "not a query: Scalar Function with name nosuch does not exist!",
    "": "not one SELECT statement of SQL: no statement",
    "select a from t; select a from t": "not one SELECT statement of SQL: SELECT, SELECT",
    "insert into t select * from t": "not one SELECT statement of SQL: INSERT",
    "create table x (a int)": "not one SELECT statement of SQL: CREATE",
    "select sum(distinct a) over (order by b rows 1 preceding) from t": "DISTINCT in sum over a frame (line 1",
    "select a from t qualify ntile(a) over () = 1": "the window function ntile (line 1, column 25)",
    "select a from t limit 3 offset (select count(*) from u)": "an OFFSET that is no constant (line 1, column 25)",
    "select a from t limit (select count(*) from u)": "a LIMIT that is no constant (line 1, column 17)",
    "select product(a) from t": "the aggregate product (line 1, column 8)",
    "select cbrt(a) from t": "the function cbrt (line 1, column 8)",
    "select md5(s) from t": "the function md5 (line 1, column 8)",
    "select lpad(s, 3, '') from t": "a padding that is no constant, or empty (line 1, column 8)",
    "select a from t where s ~ '\\bb'": "this part of a regular expression: \\b (line 1, column 25)",
    "select a / 2 from t union all select s from t": "a cast of a quotient to VARCHAR (line 1, column 8)",
    "select d + cast(wide + (wide - 1) as integer) from t": (
        "a value may not fit in 64 bits: -1..9223372036854775907 (line 1, column 10)"
    ),
    "select d + wide from t": "explicit type casts. (line 1, column 10); correct the text",
    "select random() from t": "the function random (line 1, column 8)",
    "select cast(cast(a as double) as varchar) from t": "a cast of a DOUBLE to VARCHAR (line 1, column 8)",
    "select r.i from t, range(t.a) as r(i)": "the table function range (line 1, column 20)",
    "select a from t tablesample 10 rows": "TABLESAMPLE (line 1, column 17)",
    "select rowid, a from t": "the column rowid (line 1, column 8)",
    "select min(rowid) from t": "the column rowid (line 1, column 12)",
    "select a from t where a / b": "not a condition: a quotient (line 1, column 23); compare it with something",
    "select distinct s collate nocase from t": "COLLATE (line 1, column 19)",
    "select a // b from t": "// by a number that may be zero (line 1, column 8); write x // nullif(y, 0)",
    "select trunc(a, 1) from t": "trunc with 2 arguments (line 1, column 8)",
    "select d + interval 9000 year from t": "a date that may lie outside the years 1 to 9999 (line 1, column 10)",
    "select a from text": "unknown relation: text (line 1, column 15); there are t, u",
    "select * from '/etc/passwd'": "unknown relation: /etc/passwd (line 1, column 15)",
    "select unnest([1, 2])": "UNNEST (line 1, column 8)",
    "select * from (unpivot t on a, b into name n value v)": "UNPIVOT (line 1, column 16)",
    "select ? + a from t": "a parameter (line 1, column 8); write its value into the text",
    "select a from t where a = $1": "a parameter (line 1, column 27)",
    "describe t": "not one SELECT statement of SQL: DESCRIBE",
    "-- nothing": "not one SELECT statement of SQL: no statement",
    "select 'nan'::double from t": "a constant that is NaN, or of type BIGNUM or BIT",
    "select 1::bignum from t": "a constant that is NaN, or of type BIGNUM or BIT",
    "select a from t where s = '\ud800'": "a character that is no text in UTF-8: '\\ud800'",
    "select a from t -- qualify row_number() over () = 1\ntablesample 10 rows": "TABLESAMPLE (line 2, column 1)",
    f"select {'(' * 900}a{' + 1)' * 900} from t": "more than 1000 levels of expressions, or of queries",
    f"select {' + '.join(['a'] * 400)} from t": "a query nested so deeply",
}

NAMES = {
    "nullif(cbrt(a), 1)": "the function cbrt",
    "list_sum([a])": "the function list_sum",
    "array_to_string([s], ',')": "the function array_to_string",
    "regexp_split_to_table(s, ' ')": "the function regexp_split_to_table",
    "s[1]": "s[1]",
    "a << 2": "the operator <<",
    "reverse(s)": "the function reverse",
    "extract(century from d)": "the function extract",
    "datediff('century', d, d)": "a difference of dates by century",
    "interval 3 month": "a constant interval of months that is not added to a date",
    "{'a': a}": "{'a': a}",
    "try_cast(s as integer)": "try_cast(s as integer)",
    "a and cbrt(a) between 1 and 2": "the function cbrt",
    "product(a)": "the aggregate product",
}  # fmt: skip
"""Expressions, and what the error says of them."""


@pytest.mark.parametrize("text", REFUSED)
def test_the_error_names_the_construct(text):
    with pytest.raises(DeltamarkError) as raised:
        sql(text, RELATIONS)
    assert REFUSED[text] in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_query_needs_relations():
    with pytest.raises(DeltamarkError, match="no relations for a query of SQL"):
        sql("select 1", {})


A = {"a": integer(0, 9)}


@pytest.mark.parametrize(
    ("columns_of", "problem"),
    [
        ({"t": A, "T": A}, "names that differ only in case, which SQL ignores: t and T in the relations"),
        ({"t": {**A, "A": TEXT}}, "names that differ only in case, which SQL ignores: a and A in the columns of t"),
        ({"t": A, "": A}, "an empty name in SQL: relations"),
        ({"t": {"": TEXT}}, "an empty name in SQL: columns of t"),
        ({"t": {}}, "a relation without columns in SQL: t"),
    ],
)
def test_names_that_no_text_can_tell_apart_are_refused(columns_of, problem):
    with pytest.raises(DeltamarkError) as raised:
        sql("select 1 from t", {name: source("t", columns, rows=9) for name, columns in columns_of.items()})
    assert problem in str(raised.value)


def test_names_that_differ_in_letters_beyond_ascii_are_different_ones():
    columns = {"Ä": integer(0, 9), "ä": integer(0, 9)}
    assert sql("select ä from t", {"t": source("t", columns, rows=9)}).schema.names == ("ä",)


@pytest.mark.parametrize("text", [None, b"select a from t", 5])
def test_a_text_is_a_string(text):
    with pytest.raises(DeltamarkError, match="not a text of SQL: a value of type"):
        sql(text, RELATIONS)


@pytest.mark.parametrize("names", [{"t\ud800": A}, {"t": {"a\ud800": integer(0, 9)}}])
def test_names_that_no_text_can_have_are_refused(names):
    with pytest.raises(DeltamarkError, match="a character that is no text in UTF-8"):
        sql("select 1", {name: source("t", columns, rows=9) for name, columns in names.items()})


@pytest.mark.parametrize("expression", NAMES)
def test_an_expression_has_its_own_name_and_place(expression):
    with pytest.raises(DeltamarkError) as raised:
        sql(f"select\n  {expression} as v\nfrom t", RELATIONS)
    assert f": {NAMES[expression]} (line 2, column " in str(raised.value)


def test_repeated_names_get_a_number():
    assert sql("select a, a, b as a from t", RELATIONS).schema.names == ("a", "a_2", "a_3")


def test_an_average_is_an_exact_quotient_in_two_columns():
    assert sql("select avg(a) as mean from t", RELATIONS).schema.names == ("mean.num", "mean.den")
