"""All problems of a text are listed together, each once, and none that only follows from another."""

from __future__ import annotations

import re

import pytest

from deltamark import TEXT, DeltamarkError, integer, source, sql
from deltamark.dataflow.sql import diagnosis

RELATIONS = {
    name: source(
        name,
        {"a": integer(0, 100), "b": integer(0, 100).or_null(), "s": TEXT, "wide": integer(0, 2**62)},
        rows=1000,
    )
    for name in ("t", "u")
}

MARKED = {
    "a column that is used again": """
        with c as (
          select a, s,
            cbrt(a) as r, -- !
            reverse(s) as w -- !
          from t
        )
        select r + 1 as p, sum(r) as q, max(w) as m, count(distinct w) as n from c where r > 2 and w like 'a%'
        group by r + 1, r order by p limit 3""",
    "each clause": """
        select a, count(*) as n,
          product(b) as m -- !
        from t
        where
          md5(s) = 'X' -- !
          and a > 2
        group by a
        having
          gamma(sum(b)) > 1 -- !
        order by
          sum(b) / count(b)
        limit 3""",
    "joins of each kind": """
        select x.a from t as x
        join u as y on
          x.s = md5(y.s) -- !
        left join u as z on
          cbrt(z.a) = x.b -- !
        where x.a in (
          select product(a) from t -- !
        ) and not exists (
          select 1 from u where md5(u.s) = x.s -- !
        )""",
    "parts of a union": """
        select repeat(s, 2) as w from t -- !
        union all
        select reverse(w) from (select s as w from t) as q -- !
        union
        select s from t""",
    "branches and arguments": """
        select case
          when cbrt(a) > 2 -- !
          then round(
            gamma(a) + sinh(b), -- !!
            1)
          when a > 1 then cbrt(b) -- !
          else 0 end as v from t""",
    "windows": """
        select a,
          sum(distinct b) over (order by a rows 1 preceding) as p, -- !
          row_number() over (order by cbrt(a)) as q, -- !
          lag(a, b) over (order by a) as r -- !
        from t qualify
          rank() over (order by cbrt(b)) < 3 -- !
          and a > 1""",
    "a refused row in a scalar subquery": """
        select a, (select max(r) from (
          select cbrt(b) as r from u where u.a = t.a -- !
        ) as q) + 1 as v, (
          select sum(distinct b) over (order by a rows 1 preceding) from u where u.a = t.a limit 1 -- !
        ) as w, (
          select cbrt(b) + 1 from u -- !
        ) as x from t""",
    "a product that fits after a division of both sides": """
        select a from t where wide * 100 >
          cbrt(b) * wide -- !""",
    "a join on a refused key": """
        select sum(x.a * y.a) * 1000000000000 as v from t as x join u as y on
          x.s = md5(y.s) -- !
        """,
    "constructs of rows": """
        with recursive n as (select a as i from t union all select b from n join t on i = a) -- !
        select distinct on (cbrt(a)) a, i, g from t -- !
        join n on a = i
        join range(9999999) as r(g) on g = i -- !
        """,
    "groupings": """
        select a, b, product(b) as m -- !
        from t group by rollup (a, b)
        except all
        select a, b, b / 2 from t""",
    "values": """
        select y from (values (1),
          (random()) -- !
        ) as v(y)""",
}
"""Texts, in which a comment marks each line of a problem: -- ! for one, -- !! for two."""


def lines_of(problems):
    """Return the line of the text that each problem names."""
    return [int(line) for line in re.findall(r"[(]line (\d+), column \d+[)]", problems)]


@pytest.mark.parametrize("name", MARKED)
def test_each_problem_is_listed_once_with_its_line(name):
    text = MARKED[name]
    marked = [at for at, line in enumerate(text.split("\n"), 1) for _ in re.findall("!", line.partition("--")[2])]
    with pytest.raises(DeltamarkError) as raised:
        sql(text, RELATIONS)
    problems = str(raised.value)
    assert lines_of(problems) == marked
    if len(marked) > 1:
        first, *others = problems.split("\n")
        assert first == f"{len(marked)} problems in a text of SQL:"
        assert len(others) == len(marked)


ALONE = [
    "cbrt(a)", "md5(s)", "reverse(s)", "regexp_replace(s, 'a', 'b')", "a // b", "ascii(s)", "even(a)", "s[1]",
    "gamma(a)", "sum(distinct a) over (order by b rows 1 preceding)", "(a, b)", "repeat(s, 2)",
]  # fmt: skip


def problem_of(expressions):
    with pytest.raises(DeltamarkError) as raised:
        sql(
            "select\n" + ",\n".join(f"  {each} as v{at}" for at, each in enumerate(expressions)) + "\nfrom t", RELATIONS
        )
    return str(raised.value)


@pytest.mark.parametrize("first", range(0, len(ALONE), 4))
def test_problems_together_are_those_of_each_alone(first):
    chosen = ALONE[first : first + 4]
    alone = [problem_of([each]).replace("line 2,", f"line {at},") for at, each in enumerate(chosen, 2)]
    assert problem_of(chosen).split("\n")[1:] == alone


def test_the_text_with_all_problems_corrected_is_accepted():
    text = MARKED["each clause"]
    for refused, corrected in (
        ("product(b)", "max(b)"), ("md5(s)", "s"), ("gamma(sum(b))", "sum(b)"),
    ):  # fmt: skip
        text = text.replace(refused, corrected)
    assert sql(text, RELATIONS).schema.names == ("a", "n", "m")


DEEP = 30


def test_a_part_that_is_read_twice_is_examined_once(monkeypatch):
    evaluate, count = diagnosis.evaluate, 0

    def counted(*args):
        nonlocal count
        count += 1
        assert count < 5 * DEEP
        return evaluate(*args)

    monkeypatch.setattr(diagnosis, "evaluate", counted)
    text = "(select least(cbrt(a), 1) as a, b from t)"
    for _ in range(DEEP):
        text = f"(select a + a as a, b from {text})"
    with pytest.raises(DeltamarkError, match="the function cbrt"):
        sql(f"select a, b from {text}", RELATIONS)
    assert count > DEEP
