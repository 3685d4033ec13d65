"""Random queries: SELECT with joins and groups, set operations, common table expressions, the first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuzz.queries import conditions, values, windows
from fuzz.queries import doubles as functions
from fuzz.queries.parts import NOTHING, Part, clause, listed
from fuzz.queries.writer import Named, Scope, Writer

SORTS = {"int": 6, "decimal": 3, "text": 3, "date": 2, "truth": 1, "float": 2, "wide": 1, "moment": 1, "zoned": 1}
COMMA = "comma join"
JOINS = {
    "JOIN": 5,
    "LEFT JOIN": 5,
    "RIGHT JOIN": 1,
    "FULL JOIN": 2,
    "CROSS JOIN": 1,
    COMMA: 2,
    "SEMI JOIN": 1,
    "ANTI JOIN": 1,
}
SET_OPERATIONS = {"UNION ALL": 3, "UNION": 3, "INTERSECT": 3, "EXCEPT": 3, "INTERSECT ALL": 1, "EXCEPT ALL": 1}

GROUPINGS = {"": 12, "ROLLUP": 2, "CUBE": 1, "GROUPING SETS": 1}
"""How groups are formed."""

STORED = {"AS": 3, "AS MATERIALIZED": 1, "AS NOT MATERIALIZED": 1}
"""The words of a common table expression."""

NESTED = "nested set operation"
PARENTHESES = "parentheses of a set operation"
"""Constructs of set operations: an operand is another one, and each operand is in parentheses."""

MAY_FAIL = "CAST that may fail"
"""The construct of a value that has an error for some rows."""

SELDOM = {
    "int": (
        (MAY_FAIL, "CAST(sqrt(", ") AS BIGINT)"),
        ("unsupported", "sum(DISTINCT ", ") OVER (ORDER BY 1 ROWS 1 PRECEDING)"),
        ("**", "(", " ** 2)"),
    ),
    "text": (("unsupported", "reverse(", ")"), ("unsupported", "array_to_string([", "], 'a')")),
    "decimal": ((MAY_FAIL, "CAST(CAST(", " AS DOUBLE) AS DECIMAL(4, 2))"),),
    "float": ((MAY_FAIL, "CAST(CAST(", " AS DECIMAL(9, 2)) AS DOUBLE)"),),
}
"""Constructs that few items have, by the sort of the item, with the words before and after an expression: an error for
some rows, or for the text, or a DOUBLE.
"""

OVER = " OVER ("

ALL_ROWS = "aggregates of all rows"

MANY = range(9, 14)
"""The numbers of many joins, whose order is not chosen among all orders."""

WIDE = 20
"""The columns of which SELECT * is drawn more often than other items."""

Query = tuple[Part, list[Named]]
"""A query, and its columns."""


def whole(w: Writer) -> Part:
    """Draw a query as a user writes it."""
    nest = w.pick([1, 0, 1, 2, 2])
    parts = []
    while len(parts) < 2 and w.chance(20, "CTE"):
        with_tables = w.fresh("c")
        query_, columns = query(w, None, None, nest - 1)
        kind = w.weighted(STORED)
        parts.append(Part("cte", (f"{with_tables} {kind} (", query_, ")"), "CTE"))
        w.ctes.append((with_tables, columns))
    if w.chance(4, "WITH RECURSIVE") and (recursive := _recursive(w)) is not None:
        parts.append(recursive)
    rest, _ = query(w, None, None, nest, doubles=True)
    uses = [str(rest).count(f"{name} AS") for name, _ in w.ctes]
    word = "WITH RECURSIVE " if any(each.construct.startswith("WITH RECURSIVE") for each in parts) else "WITH "
    before = clause(word, listed(parts), " ") if parts else NOTHING
    return Part("query", (before, rest), "CTE used twice" if max(uses, default=0) > 1 else "")


def _recursive(w: Writer) -> Part | None:
    """Draw a recursion along pairs of numbers, which ends because it makes no new ones, or too deep ones."""
    pairs = [
        (table, one.text, other.text)
        for table, columns in w.tables
        for one in columns
        for other in columns
        if one.sort == other.sort == "int" and one is not other
    ]
    if not pairs:
        return None
    name, (first, _, begin) = w.fresh("r"), w.pick(pairs)
    named = w.pick([["n"], ["n"], ["n", "m"], ["n", "depth"]])
    w.ctes.append((name, [Named(each, "int") for each in named]))
    starts = {"n": begin, "m": begin, "depth": "0"}
    ends = {"n": "", "m": ", m", "depth": ", depth + 1"}[named[-1]]
    steps = []
    for _ in range(w.pick([1, 1, 1, 2])):
        table, here, there = w.pick(pairs)
        tests = ["depth < 3"] if "depth" in named else []
        if w.chance(30):
            no = w.pick(["", "NOT "])
            tests.append(f"{no}EXISTS (SELECT 1 FROM {first} AS q WHERE q.{begin} = s.{there})")
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        steps.append(f"SELECT s.{there}{ends} FROM {name} JOIN {table} AS s ON n = s.{here}{where}")
    step = f"({' UNION ALL '.join(steps)})" if len(steps) > 1 else steps[0]
    first_rows = f"SELECT {', '.join(starts[each] for each in named)} FROM {first}"
    pieces = (f"{name}({', '.join(named)}) AS ({first_rows} UNION {step})",)
    return Part("cte", pieces, "WITH RECURSIVE" if len(named) == 1 else "WITH RECURSIVE of two columns")


def query(w: Writer, sorts: Sequence[str] | None, outer: Scope | None, nest: int, *, doubles: bool = False) -> Query:
    """Draw a query. sorts: those of its columns, if they are given; outer: the columns of a query around."""
    if w.chance(12, "ORDER BY LIMIT"):
        return ordered(w, sorts, outer, nest, most=4)
    if w.chance(15, *SET_OPERATIONS):
        return _set(w, sorts, outer, nest)
    return select(w, sorts, outer, nest, doubles=doubles)


def ordered(w: Writer, sorts: Sequence[str] | None, outer: Scope | None, nest: int, *, most: int) -> Query:
    """Draw the first rows of a query by all of its columns, in a random order."""
    given, columns = select(w, sorts, outer, nest)
    places = w.choices.shuffled(range(1, len(columns) + 1))
    orders = [Part("order", (str(at), w.pick(["", " DESC", " DESC NULLS FIRST", " NULLS FIRST"]))) for at in places]
    if sorts is None and outer is None and w.chance(20, "DISTINCT ON"):
        keys = ", ".join(each.text for each in w.choices.picks(columns, least=1, most=2))
        pieces = (f"SELECT DISTINCT ON ({keys}) * FROM (", given, ") AS q ORDER BY ", listed(orders))
        return Part("query", pieces, "DISTINCT ON"), columns
    offset = clause(f" OFFSET {w.pick([1, 2])}") if w.chance(20) else NOTHING
    first = f" LIMIT {w.pick(range(1, most + 1))}"
    return Part("query", (given, " ORDER BY ", listed(orders), first, offset), "ORDER BY LIMIT"), columns


def _set(w: Writer, sorts: Sequence[str] | None, outer: Scope | None, nest: int) -> Query:
    one, columns = select(w, sorts, outer, nest)
    again = _set if w.chance(20, NESTED) else select
    other, _ = again(w, [each.sort for each in columns], outer, nest)
    operation = w.weighted(SET_OPERATIONS)
    if PARENTHESES in w.avoided:
        return Part("query", (one, f" {operation} ", other), operation), columns
    return Part("query", ("(", one, f") {operation} (", other, ")"), operation), columns


def select(w: Writer, sorts: Sequence[str] | None, outer: Scope | None, nest: int, *, doubles: bool = False) -> Query:
    """Draw a SELECT, with or without groups."""
    from_, rows = source(w, nest)
    rows = replace(rows, outer=outer)
    conditions_ = where(w, rows)
    if sorts is None and outer is None and any(map(rows.of, functions.SORTS)) and w.chance(22, "float"):
        return functions.select(w, rows, (" FROM ", from_, conditions_))
    if w.chance(35, "GROUP BY", ALL_ROWS):
        return _grouped(w, sorts, rows, (" FROM ", from_, conditions_), doubles=doubles)
    if (
        sorts is None
        and outer is None
        and w.chance(50 if len(rows.columns) > WIDE else 10, "SELECT *")
        and (columns := _starred(rows))
    ):
        return Part("query", ("SELECT * FROM ", from_, conditions_), "SELECT *"), columns
    distinct = w.chance(15, "DISTINCT")
    chosen = sorts or _sorts(w, doubles=doubles and not distinct)
    items, columns = _items(w, chosen, rows)
    before = Part("clause", ("DISTINCT ",), "DISTINCT") if distinct else NOTHING
    qualify = NOTHING
    if outer is None and windows.can_be_drawn("int", rows) and OVER not in str(items) and w.chance(8, "QUALIFY"):
        qualify = windows.limit(w, rows)
    return Part("query", ("SELECT ", before, items, " FROM ", from_, conditions_, qualify), "SELECT"), columns


def _starred(rows: Scope) -> list[Named]:
    """Return the columns of SELECT *, or none if two of them have the same name."""
    columns = [Named(each.text.partition(".")[2], each.sort) for each in rows.columns]
    return columns if len({each.text for each in columns}) == len(columns) else []


def _sorts(w: Writer, *, doubles: bool) -> list[str]:
    found = [w.weighted(SORTS) for _ in range(w.pick([2, 1, 3, 4]))]
    return [*found, "double"] if doubles and w.chance(30) else found


def _items(w: Writer, sorts: Sequence[str], scope: Scope) -> Query:
    items, columns = [], []
    for sort in sorts:
        name = w.fresh("x")
        item = values.leaf(w, sort, scope) if w.chance(45) else values.value(w, sort, scope, 2)
        has_window = any(OVER in str(each) for each in items)  # SQL leaves open which values of two orders meet
        if scope.rows is None and scope.outer is None and windows.can_be_drawn(sort, scope) and w.chance(12):
            item = item if has_window else windows.call(w, sort, scope)
        if (
            sort in SELDOM and w.chance(3, "unsupported") and OVER not in str(item)
        ):  # calls over windows cannot be nested
            construct, before, after = w.pick(SELDOM[sort])
            item = Part(sort, (before, item, after), construct)
        items.append(Part("item", (item, f" AS {name}")))
        columns.append(Named(name, sort))
    return listed(items), columns


def _grouped(
    w: Writer, sorts: Sequence[str] | None, rows: Scope, rest: tuple[str | Part, ...], *, doubles: bool
) -> Query:
    chosen = sorts or _sorts(w, doubles=doubles)
    keys, names, early = [], [], []
    numbers = [1, 1, 2, 0]
    if ALL_ROWS in w.avoided:
        numbers = [1, 2]
    elif "GROUP BY" in w.avoided:
        numbers = [0]
    for _ in range(w.pick(numbers)):
        if w.chance(75) and any(each.sort != "double" for each in rows.columns):
            key = w.pick([each for each in rows.columns if each.sort != "double"])
            names.append(key)
            keys.append(Part("key", (key.text,)))
        elif sorts is None and "GROUP BY of an expression" not in w.avoided:
            sort, name = w.pick(["int", "text", "date", "int", "truth"]), w.fresh("k")
            early.append((Part("item", (values.value(w, sort, rows.flat(), 2), f" AS {name}")), Named(name, sort)))
            keys.append(Part("key", (name,), "GROUP BY of an expression"))
    scope = Scope(tuple(names), rows.nest, None, rows.flat())
    items, columns = _items(w, chosen, scope)
    group = _groups(w, keys) if keys else NOTHING
    if group.construct and sorts is None:
        name = w.fresh("g")
        bits = Part("item", (f"grouping({', '.join(map(str, keys))}) AS {name}",), "GROUPING")
        early.append((bits, Named(name, "int")))
    having = NOTHING
    if w.chance(30):
        having = Part("clause", (" HAVING ", conditions.condition(w, scope, 1)), "HAVING")
    if sorts is None and rows.outer is None and w.chance(10):
        name = w.fresh("w")
        early.append((Part("item", (windows.over_groups(w, names, rows), f" AS {name}")), Named(name, "int")))
    items = listed([*(item for item, _ in early), *(part for _, part in items.parts())])
    pieces = ("SELECT ", items, *rest, group, having)
    return Part("query", pieces, "GROUP BY" if keys else ALL_ROWS), [
        *(each for _, each in early),
        *columns,
    ]


def _groups(w: Writer, keys: list[Part]) -> Part:
    kind = w.weighted(GROUPINGS)
    if not kind:
        return clause(" GROUP BY ", listed(keys))
    if kind != "GROUPING SETS":
        return Part("clause", (f" GROUP BY {kind} (", listed(keys), ")"), kind)
    sets = [Part("set", (f"({', '.join(map(str, w.choices.picks(keys, most=2)))})",)) for _ in range(w.pick([2, 1, 3]))]
    return Part("clause", (f" GROUP BY {kind} ((", listed(keys), "), ", listed(sets), ")"), kind)


def where(w: Writer, rows: Scope) -> Part:
    """Draw a WHERE, which in a correlated subquery mostly compares a column with one of the query around."""
    tests = [conditions.condition(w, rows, 2)] if w.chance(50) else []
    if rows.outer is not None and w.chance(80):
        tests = [_correlation(w, rows, rows.outer) for _ in range(w.pick([1, 1, 2]))] + tests
    tests = [*rows.links, *tests]
    return clause(" WHERE ", listed(tests, " AND ")) if tests else NOTHING


def _correlation(w: Writer, rows: Scope, outer: Scope) -> Part:
    pairs = pairs_of(rows.columns, outer.columns)
    if not pairs:
        return Part("truth", ("TRUE",))
    one, other = w.pick(pairs)
    sign = "=" if w.chance(70) else w.weighted(conditions.SIGNS)
    sides = Part(one.sort, (one.text,), "column"), Part(one.sort, (other.text,), values.OF_OUTER)
    return Part("truth", (sides[0], f" {sign} ", sides[1]), f"correlated by {sign}")


def pairs_of(left: Sequence[Named], right: Sequence[Named]) -> list[tuple[Named, Named]]:
    """Return the pairs of columns that may be compared; doubles that are rounded may not."""
    return [(one, other) for one in left for other in right if one.sort == other.sort != "double"]


def source(w: Writer, nest: int) -> tuple[Part, Scope]:
    """Draw what follows FROM."""
    part, columns = _table(w, nest)
    if w.chance(2, "many joins") and any(each.sort != "double" for each in columns):
        return _many(w, part, columns, nest)
    links: list[Part] = []
    separate = False  # whether a comma precedes, which binds less than a join, so that USING finds no columns before it
    for _ in range(0 if w.avoided.issuperset(JOINS) else w.pick([0, 0, 0, 1, 1, 2, 3])):
        kind = w.weighted(JOINS)
        if nest > 0 and w.chance(4, "LATERAL"):
            part, columns = _lateral(w, part, columns, nest)
            separate = True
            continue
        other, more = _table(w, nest)
        on = clause()
        both = Scope((*columns, *more))
        pairs = pairs_of(columns, more)
        if kind == COMMA and pairs and w.chance(85):
            one, two = w.pick(pairs)
            links.append(Part("truth", (one.text, " = ", two.text), "joined in WHERE"))
        shared = _shared(columns, more)
        if kind not in (COMMA, "CROSS JOIN") and shared and not separate and w.chance(10, "USING"):
            on = Part("on", (f" USING ({w.pick(shared)})",), "USING")
        elif kind not in (COMMA, "CROSS JOIN"):
            tests, construct = _join_condition(w, columns, more, both)
            on = Part("on", (" ON ", tests), construct)
        part = Part("table", (part, ", " if kind == COMMA else f" {kind} ", other, on), kind)
        separate |= kind == COMMA
        columns = columns if kind in ("SEMI JOIN", "ANTI JOIN") else [*columns, *more]
    return part, Scope(tuple(columns), max(nest, 0), links=tuple(links))


def _shared(left: Sequence[Named], right: Sequence[Named]) -> list[str]:
    """Return the names that one column of each side has, which may be compared."""
    names, others = ([each.text.partition(".")[2] for each in side] for side in (left, right))
    pairs = [(one.text.partition(".")[2], other.text.partition(".")[2]) for one, other in pairs_of(left, right)]
    return [name for name, other in pairs if name == other and names.count(name) == others.count(name) == 1]


def _many(w: Writer, part: Part, columns: list[Named], nest: int) -> tuple[Part, Scope]:
    """Join rows with different values of many tables, or of one common table expression."""
    links, own = [], [each for each in columns if each.sort != "double"]
    for _ in range(w.pick(MANY)):
        one = w.pick(own)
        same = [(name, each) for name, named in (*w.tables, *w.ctes) for each in named if each.sort == one.sort]
        if not same:
            continue
        (name, other), alias = w.pick(same), w.fresh("m")
        other_table = Part("table", (f"(SELECT DISTINCT {other.text} AS y FROM {name}) AS {alias}",))
        part = Part("table", (part, ", ", other_table), "many joins")
        links.append(Part("truth", (one.text, f" = {alias}.y")))
        columns = [*columns, Named(f"{alias}.y", one.sort)]
    return part, Scope(tuple(columns), max(nest, 0), links=tuple(links))


def _join_condition(w: Writer, left: Sequence[Named], right: Sequence[Named], both: Scope) -> tuple[Part, str]:
    """Draw the condition of a join, and its construct."""
    tests, construct = [], ""
    pairs = pairs_of(left, right)
    if pairs and w.chance(85):
        one, other = w.pick(pairs)
        sign = "=" if w.chance(80) else w.weighted(conditions.SIGNS)
        sign = "=" if f"joined by {sign}" in w.avoided else sign
        tests.append(Part("truth", (one.text, f" {sign} ", other.text), f"joined by {sign}"))
    if not tests or w.chance(25, "condition in ON"):
        tests.append(conditions.condition(w, both, 1))
        construct = "condition in ON"
    return listed(tests, " AND "), construct


def _table(w: Writer, nest: int) -> tuple[Part, list[Named]]:
    """Draw a table, a common table expression, or a query in parentheses."""
    if w.ctes and w.chance(60):
        name, columns = w.pick(w.ctes)
    elif nest > 0 and w.chance(18, "derived table"):
        alias = w.fresh("q")
        inner, columns = query(w, None, None, nest - 1)
        part = Part("table", ("(", inner, f") AS {alias}"), "derived table")
        return part, [Named(f"{alias}.{each.text}", each.sort) for each in columns]
    elif w.chance(2, "range"):
        alias, start = w.fresh("i"), w.pick([0, 1, -2])
        part = Part("table", (f"range({start}, {w.pick([0, 3, 20])}, {w.pick([1, 2])}) AS {alias}(y)",), "range")
        return part, [Named(f"{alias}.y", "int")]
    elif w.chance(3, "VALUES"):
        alias = w.fresh("v")
        part = Part("table", (f"(VALUES (1, 'a'), (2, NULL), (NULL, 'b')) AS {alias}(y, z)",), "VALUES")
        return part, [Named(f"{alias}.y", "int"), Named(f"{alias}.z", "text")]
    else:
        name, columns = w.pick(w.tables)
    alias = w.fresh(name[0])
    return Part("table", (f"{name} AS {alias}",)), [Named(f"{alias}.{each.text}", each.sort) for each in columns]


def _lateral(w: Writer, part: Part, columns: list[Named], nest: int) -> tuple[Part, list[Named]]:
    alias = w.fresh("l")
    inner, more = select(w, None, Scope(tuple(columns)), nest - 1)
    pieces = (part, ", LATERAL (", inner, f") AS {alias}")
    return Part("table", pieces, "LATERAL"), [*columns, *(Named(f"{alias}.{each.text}", each.sort) for each in more)]
