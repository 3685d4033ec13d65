"""The triggers that maintain a query: for each of its tables, one for rows that arrive and one for rows that leave.

A trigger runs once after a statement, and sees the rows that it has inserted or deleted. It runs the query over these
rows in the place of their table, and adds the groups to a table of sums or subtracts them. Each group has the number of
its joined rows; at 0 it is deleted.

A table that occurs twice is changed in both places. With D for the changed rows, the product of both places grows by
D x new + new x D - D x D, and shrinks by D x new + new x D + D x D.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import sqlglot
from sqlglot import exp

DIALECT = "postgres"

SUMS, CHANGED, NUMBER = "sums", "changed", "n"
"""The table of the groups, the rows of a statement, and the column with the number of joined rows."""


class UnsupportedError(Exception):
    """A query that such triggers cannot maintain."""


@dataclass(frozen=True)
class Triggers:
    """The statements that create the table of sums and the triggers, and the one that reads the answer."""

    statements: Sequence[str]
    reading: str


def triggers_of(sql: str) -> Triggers:
    """Return the triggers of a query."""
    query = sqlglot.parse_one(sql, read=DIALECT)
    source = _source(query)
    columns = _columns(query)
    stored = columns.stored(query)
    made = [
        f"CREATE TABLE {SUMS} AS {stored.sql(DIALECT)} {'WITH NO DATA' if columns.is_grouped else ''}",
        f"CREATE UNIQUE INDEX ON {SUMS} ({', '.join(columns.keys)}) NULLS NOT DISTINCT",
        f"CREATE INDEX ON {SUMS} ({NUMBER}) WHERE {NUMBER} = 0",
    ]
    for table in dict.fromkeys(each.name for each in source.find_all(exp.Table)):
        for event, rows in (("INSERT", "NEW"), ("DELETE", "OLD")):
            made += _trigger(table, event, rows, [*_additions(stored, columns, table, inserts=event == "INSERT")])
    return Triggers(made, columns.reading(query))


def _trigger(table: str, event: str, rows: str, additions: Sequence[str]) -> Iterator[str]:
    name = f"after_{event.lower()}_{table}"
    body = "; ".join([*additions, f"DELETE FROM {SUMS} WHERE {NUMBER} = 0 AND NOT is_kept"])
    yield f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NULL; END $$"
    yield (
        f"CREATE TRIGGER {name} AFTER {event} ON {table} REFERENCING {rows} TABLE AS {CHANGED} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
    )


def _additions(stored: exp.Select, columns: _Columns, table: str, *, inserts: bool) -> Iterator[str]:
    """Yield the statements that add the groups of changed rows, one for each set of places of their table."""
    places = [at for at, each in enumerate(stored.find_all(exp.Table)) if each.name == table]
    for number in range(1, len(places) + 1):
        sign = "-" if not inserts or number % 2 == 0 else ""
        for chosen in combinations(places, number):
            made = stored.copy()
            for at, each in enumerate(list(made.find_all(exp.Table))):
                if at in chosen:
                    each.replace(exp.alias_(exp.to_table(CHANGED), each.alias_or_name, table=True))
            yield columns.added(made.sql(DIALECT), sign)


def _source(query: exp.Expression) -> exp.Select:
    """Return the SELECT with the tables: the query itself, or one without aggregates in its FROM."""
    if not isinstance(query, exp.Select) or query.args.get("with_"):
        raise UnsupportedError("WITH, or an operation on sets")
    source = query
    if not query.args.get("from_"):
        raise UnsupportedError("no table")
    if isinstance(within := query.args["from_"].this, exp.Subquery) and not query.args.get("joins"):
        source = within.this
        if not isinstance(source, exp.Select) or source.args.get("group") or source.find(exp.AggFunc):
            raise UnsupportedError("aggregates of aggregates")
        if source.args.get("distinct") or source.args.get("limit"):
            raise UnsupportedError("DISTINCT or LIMIT in a subquery")
    if sum(1 for _ in query.find_all(exp.Select)) > (1 if source is query else 2):
        raise UnsupportedError("a subquery")
    for join in source.args.get("joins") or []:
        if join.side or join.kind not in ("", "INNER", "CROSS"):
            raise UnsupportedError(f"a {join.side or join.kind} join")
    if query.find(exp.Window):
        raise UnsupportedError("a window function")
    return source


@dataclass(frozen=True)
class _Columns:
    """The columns of the table of sums, and what takes the place of expressions of the query when it is read.

    keys, sums: by their names.
    """

    keys: Mapping[str, exp.Expression]
    sums: Mapping[str, exp.Expression]
    places: Mapping[exp.Expression, exp.Expression]
    is_grouped: bool
    """Whether a group is deleted when it has no rows: an aggregate of all rows has one always."""
    repeats: bool
    """Whether a group is as many rows of the answer as it has joined rows."""

    def stored(self, query: exp.Select) -> exp.Select:
        """Return the query of the groups."""
        made = query.copy()
        named = {**self.keys, **self.sums, NUMBER: exp.Count(this=exp.Star())}
        kept = exp.alias_(exp.false() if self.is_grouped else exp.true(), "is_kept")
        made.set("expressions", [*(exp.alias_(each.copy(), name) for name, each in named.items()), kept])
        keys = [each.copy() for each in self.keys.values() if not isinstance(each, exp.Literal)]
        made.set("group", exp.Group(expressions=keys) if keys else None)
        for clause in ("having", "order", "limit", "offset", "distinct"):
            made.set(clause, None)
        if self.is_grouped and not keys:  # constants alone: there is a group only if there are rows
            made.set("having", exp.Having(this=sqlglot.parse_one("count(*) > 0", read=DIALECT)))
        return made

    def added(self, groups: str, sign: str) -> str:
        numbers = [*self.sums, NUMBER]
        selected = [*self.keys, *(f"{sign}{each}" for each in numbers), "is_kept"]
        updated = ", ".join(f"{each} = kept.{each} + excluded.{each}" for each in numbers)
        return (
            f"INSERT INTO {SUMS} AS kept SELECT {', '.join(selected)} FROM ({groups}) AS groups "
            f"ON CONFLICT ({', '.join(self.keys)}) DO UPDATE SET {updated}"
        )

    def _placed(self, each: exp.Expression) -> exp.Expression:
        """Return what takes the place of an expression. A number in the order or the limit is none of the query's."""
        is_number = isinstance(each, exp.Literal) and isinstance(each.parent, exp.Ordered | exp.Limit | exp.Offset)
        return self.places[each].copy() if each in self.places and not is_number else each

    def reading(self, query: exp.Select) -> str:
        """Return the query that reads the table of sums."""
        made = query.transform(self._placed)
        made.set("from_", exp.From(this=exp.to_table(SUMS)))
        having = made.args.get("having")
        made.set("where", exp.Where(this=having.this) if having else None)
        for clause in ("joins", "group", "having"):
            made.set(clause, None)
        if self.repeats:
            made.set(
                "joins",
                [
                    sqlglot.parse_one(f"SELECT 1 FROM a CROSS JOIN generate_series(1, {NUMBER})", read=DIALECT).args[
                        "joins"
                    ][0]
                ],
            )
        return made.sql(DIALECT)


def _columns(query: exp.Select) -> _Columns:
    aliases = {each.alias: each.this for each in query.expressions if isinstance(each, exp.Alias)}
    group = query.args.get("group")
    given = [_meant(each, aliases, query) for each in (group.expressions if group else ())]
    aggregates: dict[exp.Expression, None] = {}
    for clause in (*query.expressions, query.args.get("having"), query.args.get("order")):
        for each in clause.find_all(exp.AggFunc) if clause else ():
            aggregates[each.parent if isinstance(each.parent, exp.Filter) else each] = None
    repeats = not (group or aggregates or query.args.get("having"))
    if repeats:
        given = [each.unalias() for each in query.expressions]
    is_grouped = bool(given)
    keys = {f"k{at}": each for at, each in enumerate(dict.fromkeys(given))} or {"k0": exp.Literal.number(0)}
    places: dict[exp.Expression, exp.Expression] = {each: exp.column(name) for name, each in keys.items() if is_grouped}
    sums: dict[str, exp.Expression] = {}
    for at, each in enumerate(aggregates):
        parts, places[each] = _summed(each, f"s{at}")
        sums.update(parts)
    return _Columns(keys, sums, places, is_grouped, repeats and not query.args.get("distinct"))


def _meant(key: exp.Expression, aliases: Mapping[str, exp.Expression], query: exp.Select) -> exp.Expression:
    """Return the expression of a key, which may be the name or the place of a column of the answer."""
    if isinstance(key, exp.Literal) and key.is_int:
        return query.expressions[int(key.this) - 1].unalias()
    return aliases.get(key.name, key) if isinstance(key, exp.Column) and not key.table else key


def _summed(aggregate: exp.Expression, name: str) -> tuple[dict[str, exp.Expression], exp.Expression]:
    """Return the sums behind an aggregate, and the aggregate made of them: NULL for no rows, unless it is a count."""
    call, where = aggregate, ""
    if isinstance(aggregate, exp.Filter):
        call, where = aggregate.this, f" FILTER ({aggregate.expression.sql(DIALECT).strip()})"
    argument = call.this
    if isinstance(argument, exp.Distinct) or not isinstance(call, exp.Sum | exp.Avg | exp.Count):
        raise UnsupportedError(f"{aggregate.sql(DIALECT)[:40]}: rows that leave need the others")
    text = argument.sql(DIALECT)
    counted = sqlglot.parse_one(f"count({text}){where}", read=DIALECT)
    if isinstance(call, exp.Count):
        return {name: counted}, exp.column(name)
    total = sqlglot.parse_one(f"coalesce(sum({text}){where}, 0)", read=DIALECT)
    read = f"{name} / {name}_rows" if isinstance(call, exp.Avg) else name
    made = sqlglot.parse_one(f"CASE WHEN {name}_rows > 0 THEN {read} END", read=DIALECT)
    return {name: total, f"{name}_rows": counted}, made
