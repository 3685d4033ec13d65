"""The materialized views of a query: one for each of its tables, whose insertions it sees.

A view of ClickHouse runs its query over each block of rows that is inserted into the first table of its FROM, and
inserts the result into another table. The other tables of a join are read as they are. So the query has a view for
each table, with this table as the first. All views insert into one table of aggregate states, which the reading query
merges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

DIALECT = "clickhouse"

MERGED = {exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", exp.Count: "count"}
"""The aggregates, with the names of their states in ClickHouse."""


class UnsupportedError(Exception):
    """A query that such views cannot maintain, not even while rows are only inserted."""


@dataclass(frozen=True)
class Views:
    """What the views insert, by the table whose insertions they see; how these rows are stored; and what reads them."""

    inserts: Mapping[str, str]
    storage: str
    reading: str


def views_of(sql: str, tables: Mapping[str, list[str]]) -> Views:
    """Return the views of a query. tables: the columns of each relation."""
    query = sqlglot.parse_one(sql, read=DIALECT)
    source = _source(query)
    names = [table.name for table in source.find_all(exp.Table)]
    if len(set(names)) < len(names):
        raise UnsupportedError("a table occurs twice: a view would see the inserted rows in both places")
    columns, inserts = _columns(query), {}
    for name in names:
        _begin_with(source, name, tables)
        inserts[name] = columns.stored(query).sql(DIALECT)
    engine = "AggregatingMergeTree" if columns.is_grouped else "MergeTree"
    order = ", ".join(f"k{at}" for at in range(len(columns.keys)))
    storage = f"{engine} ORDER BY ({order}) SETTINGS allow_nullable_key = 1"
    return Views(inserts, storage, columns.reading(query).sql(DIALECT))


def _source(query: exp.Expression) -> exp.Select:
    """Return the SELECT with the tables: the query itself, or one without aggregates in its FROM."""
    if not isinstance(query, exp.Select) or query.args.get("with_"):
        raise UnsupportedError("WITH, or an operation on sets")
    source = query
    if isinstance(within := query.args["from_"].this, exp.Subquery) and not query.args.get("joins"):
        source = within.this
        if not isinstance(source, exp.Select) or source.args.get("group") or source.find(exp.AggFunc):
            raise UnsupportedError("aggregates of aggregates")
    if sum(1 for _ in query.find_all(exp.Select)) > (1 if source is query else 2):
        raise UnsupportedError("a subquery")
    for join in source.args.get("joins") or []:
        if join.side or join.kind not in ("", "INNER", "CROSS"):
            raise UnsupportedError(f"a {join.side or join.kind} join: a row that arrives may take rows of it back")
    if query.args.get("distinct") or query.find(exp.Window):
        raise UnsupportedError("DISTINCT, or a window function")
    if query.args.get("having") and not (query.args.get("group") or query.find(exp.AggFunc)):
        raise UnsupportedError("HAVING without an aggregate")
    return source


def _begin_with(source: exp.Select, first: str, tables: Mapping[str, list[str]]) -> None:
    """Order the tables so that each is joined by equalities with those before it, if there are any."""
    joins = source.args.get("joins") or []
    given = {each.name: each for each in (source.args["from_"].this, *(join.this for join in joins))}
    conditions = [each.args["on"] for each in joins if each.args.get("on")]
    if source.args.get("where"):
        conditions.append(source.args["where"].this)
    parts = [part.copy() for each in conditions for part in _parts(each)]
    owner = {column: name for name in given for column in tables[name]}
    joined, left, made = {first}, [name for name in given if name != first], []
    while left:
        on: list[exp.Expression] = []
        for name in left:
            on = [part for part in parts if _connects(part, name, joined, owner)]
            if on:
                break
        name = name if on else left[0]
        parts = [part for part in parts if part not in on]
        made.append(
            exp.Join(this=given[name].copy(), kind="INNER" if on else "CROSS", on=exp.and_(*on) if on else None)
        )
        joined.add(name)
        left.remove(name)
    source.set("from_", exp.From(this=given[first].copy()))
    source.set("joins", made)
    source.set("where", exp.Where(this=exp.and_(*parts)) if parts else None)


def _parts(condition: exp.Expression) -> list[exp.Expression]:
    """Return the conditions of which a condition is the conjunction."""
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def _connects(part: exp.Expression, name: str, joined: set[str], owner: Mapping[str, str]) -> bool:
    """Return whether a condition equates a column of a table with one of the tables before it."""
    if not isinstance(part, exp.EQ):
        return False
    sides = [side.name if isinstance(side, exp.Column) else "" for side in (part.this, part.expression)]
    found = {owner.get(side, "") for side in sides}
    return name in found and bool(found & joined)


@dataclass(frozen=True)
class _Columns:
    """The columns that the views insert, and what takes the place of expressions of the query in the reading query."""

    keys: list[exp.Expression]
    others: list[exp.Expression]
    places: dict[exp.Expression, exp.Expression]
    is_grouped: bool

    def stored(self, query: exp.Select) -> exp.Select:
        """Return the query of a view."""
        made = query.copy()
        named = [(f"k{at}", each) for at, each in enumerate(self.keys)]
        named += [(f"s{at}", each) for at, each in enumerate(self.others)]
        made.set("expressions", [exp.alias_(each.copy(), name) for name, each in named])
        made.set("group", exp.Group(expressions=[each.copy() for each in self.keys]) if self.keys else None)
        for clause in ("having", "order", "limit", "offset"):
            made.set(clause, None)
        return made

    def _placed(self, each: exp.Expression) -> exp.Expression:
        """Return what takes the place of an expression. A number in the order or the limit is none of the query's."""
        is_number = isinstance(each, exp.Literal) and isinstance(each.parent, exp.Ordered | exp.Limit | exp.Offset)
        return self.places[each].copy() if each in self.places and not is_number else each

    def reading(self, query: exp.Select) -> exp.Select:
        """Return the query that reads the rows of all views."""
        made = query.transform(self._placed)
        made.set("from_", exp.From(this=exp.to_table("answer")))
        made.set(
            "group", exp.Group(expressions=[self.places[each].copy() for each in self.keys]) if self.keys else None
        )
        for clause in ("joins", "where"):
            made.set(clause, None)
        return made


def _columns(query: exp.Select) -> _Columns:
    aliases = {each.alias: each.this for each in query.expressions if isinstance(each, exp.Alias)}
    group = query.args.get("group")
    keys = [aliases.get(each.name, each) for each in (group.expressions if group else ())]
    aggregates: dict[exp.Expression, None] = {}
    for clause in (*query.expressions, query.args.get("having"), query.args.get("order")):
        for each in clause.find_all(exp.AggFunc) if clause else ():
            aggregates[each.parent if isinstance(each.parent, exp.Filter) else each] = None
    places: dict[exp.Expression, exp.Expression] = {each: exp.column(f"k{at}") for at, each in enumerate(keys)}
    if not (keys or aggregates):
        items = [each.unalias() for each in query.expressions]
        return _Columns([], items, {each: exp.column(f"s{at}") for at, each in enumerate(items)}, is_grouped=False)
    states = []
    for at, each in enumerate(aggregates):
        name, state = _state(each)
        states.append(state)
        places[each] = exp.Anonymous(this=f"{name}Merge", expressions=[exp.column(f"s{at}")])
    return _Columns(keys, states, places, is_grouped=True)


def _state(aggregate: exp.Expression) -> tuple[str, exp.Expression]:
    """Return the name of an aggregate in ClickHouse, and its state. One of no rows is NULL, except for a count.

    The condition belongs to the name: a state to which it is added later, as in `sumStateIf`, forgets NULL.
    """
    call, suffix, condition = aggregate, "", []
    if isinstance(aggregate, exp.Filter):
        call, suffix, condition = aggregate.this, "If", [aggregate.expression.this.copy()]
    name, argument = MERGED.get(type(call)), call.this
    if name == "count" and isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
        name, arguments = "uniqExact", [argument.expressions[0].copy()]
    elif name == "count":
        arguments = [] if isinstance(argument, exp.Star) else [argument.copy()]
    elif name and not isinstance(argument, exp.Distinct):
        arguments = [exp.Anonymous(this="toNullable", expressions=[argument.copy()])]
    else:
        raise UnsupportedError(aggregate.sql(DIALECT))
    return f"{name}{suffix}", exp.Anonymous(this=f"{name}{suffix}State", expressions=[*arguments, *condition])
