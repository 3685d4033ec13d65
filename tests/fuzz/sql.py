"""Plans written as SQL, with a common table expression for each node, so that DuckDB computes their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.consolidate import Consolidate
from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.operators.null_row import NullRow
from deltamark.dataflow.operators.repeat import Repeat
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.operators.top import TopK
from deltamark.dataflow.plan.terms import (
    Add,
    And,
    Coalesce,
    Column,
    Constant,
    Equal,
    IsNull,
    Less,
    Lookup,
    Match,
    Member,
    Multiply,
    Not,
    Or,
    Subtract,
    Table,
    Term,
    When,
)
from deltamark.dataflow.types import NULL

BINARY: dict[type[Term], str] = {
    Add: "+", Subtract: "-", Multiply: "*", Equal: "=", Less: "<", And: "AND", Or: "OR",
}  # fmt: skip


class NotInSqlError(Exception):
    """A plan that this module does not write as SQL."""


def sql_of(root: Node) -> str:
    nodes = list(walk(root))
    names = {node: node.name if isinstance(node, Input) else f"n{place}" for place, node in enumerate(nodes)}
    tables = [
        f"{names[node]} AS ({_query(node, [names[each] for each in node.inputs], names)})"
        for node in nodes
        if not isinstance(node, Input | Negate)
    ]
    if isinstance(root, Negate):
        raise NotInSqlError(root.operation)
    return f"{'WITH ' if tables else ''}{', '.join(tables)} SELECT * FROM {names[root]}"


def _query(node: Node, given: list[str], names: dict[Node, str]) -> str:
    if isinstance(node, Concat):
        return _concat(node, names)
    if type(node) not in QUERIES or any(isinstance(each, Negate) for each in node.inputs):
        raise NotInSqlError(node.operation)
    if not node.schema.names:
        raise NotInSqlError("rows without columns")
    return QUERIES[type(node)](node, *given)


def _where(node: Filter, given: str) -> str:
    return f"FROM {given} WHERE {_term(node.condition)}"


def _select(node: Project, given: str) -> str:
    return f"SELECT {_list(f'{_number(term)} AS {_name(name)}' for name, term in node.columns)} FROM {given}"


def _consolidate(_: Node, given: str) -> str:
    return f"FROM {given}"


def _threshold(node: Threshold, given: str) -> str:
    return f"SELECT * FROM {given} GROUP BY ALL HAVING count(*) >= {node.least}"


def _top(node: TopK, given: str) -> str:
    how = {"ascending": "ASC NULLS FIRST", "descending": "DESC NULLS LAST"}
    return f"FROM {given} ORDER BY {_list(f'{_name(name)} {how[each]}' for name, each in node.order)} LIMIT {node.k}"


def _or_null(node: NullRow, given: str) -> str:
    nothing = _list(f"NULL AS {_name(name)}" for name in node.schema.names)
    return f"FROM {given} UNION ALL SELECT {nothing} WHERE NOT EXISTS (FROM {given})"


def _concat(node: Concat, names: dict[Node, str]) -> str:
    """Subtract the negated parts from the others, as bags: the result has no negative weight."""
    added = [names[each] for each in node.parts if not isinstance(each, Negate)]
    taken = [names[each.rows] for each in node.parts if isinstance(each, Negate)]
    if not added or any(isinstance(each, Negate) and isinstance(each.rows, Negate) for each in node.parts):
        raise NotInSqlError("negate")
    union = " UNION ALL ".join(f"FROM {each}" for each in added)
    if not taken:
        return union
    return f"FROM ({union}) EXCEPT ALL FROM ({' UNION ALL '.join(f'FROM {each}' for each in taken)})"


def _aggregate(node: Aggregate, given: str) -> str:
    if any(term.type.kind == "double" for term in node.terms):
        raise NotInSqlError("a sum of doubles")  # tables have the integers that store them
    sums = (("count(*)" if each.term is None else f"sum({_number(each.term)})", each.name) for each in node.sums)
    columns = [*map(_name, node.keys), *(f"{value} AS {_name(name)}" for value, name in sums)]
    groups = f"GROUP BY {_list(map(_name, node.keys))}" if node.keys else "HAVING count(*) > 0"
    return f"SELECT {_list(columns)} FROM {given} {groups}"


def _join(node: Join, left: str, right: str) -> str:
    kept = [name for name in node.right.schema.names if name not in node.right_keys]
    columns = [f"a.{_name(name)}" for name in node.left.schema.names] + [f"b.{_name(name)}" for name in kept]
    return f"SELECT {_list(columns)} FROM {left} AS a JOIN {right} AS b ON {_equal(*node.keys)}"


def _extreme(node: Extreme, given: str) -> str:
    of = _name(node.column)
    best = f"{'max' if node.which == 'largest' else 'min'}({of})"
    window = f"PARTITION BY {_list(map(_name, node.keys))}" if node.keys else ""
    return f"FROM {given} QUALIFY {of} = {best} OVER ({window})"


def _bound(node: MovingThreshold, given: str, limits: str) -> str:
    left = f"({_number(node.value, 'a.')})::HUGEINT{f' * b.{_name(node.denominator)}' if node.denominator else ''}"
    test = f"{left} {'>' if node.which == 'above' else '<'} b.{_name(node.numerator)}"
    return f"SELECT a.* FROM {given} AS a JOIN {limits} AS b ON {_equal(*node.keys)} AND {test}"


def _repeat(node: Repeat, given: str) -> str:
    columns = _list(map(_name, node.schema.names))
    return f'SELECT {columns} FROM (SELECT *, unnest(range({_name(node.times)})) AS "copy of a row" FROM {given})'


def _equal(mine: tuple[str, ...], theirs: tuple[str, ...]) -> str:
    """Return the condition that keys are equal; in plans, NULL equals NULL."""
    pairs = zip(mine, theirs, strict=True)
    return " AND ".join(["true", *(f"a.{_name(left)} IS NOT DISTINCT FROM b.{_name(right)}" for left, right in pairs)])


QUERIES: dict[type[Node], Callable[..., str]] = {
    Filter: _where, Project: _select, Consolidate: _consolidate, Aggregate: _aggregate, Threshold: _threshold,
    Join: _join, Extreme: _extreme, TopK: _top, MovingThreshold: _bound, NullRow: _or_null,
    Repeat: _repeat,
}  # fmt: skip


def _term(term: Term, table: str = "") -> str:
    """Return the SQL of a term; numbers, dates, codes and short texts are the integers that represent them.

    A condition is a BOOLEAN. Where its value is stored, or computed with, it is the integer that represents it.
    """
    if isinstance(term, Column):
        return f"{table}{_name(term.name)}"
    if type(term) not in TERMS:
        raise NotInSqlError(term.operation)
    tests = {Not: 1, And: 2, Or: 2, When: 1}.get(type(term), 0)
    args = (_term(arg, table) if at < tests else _number(arg, table) for at, arg in enumerate(term.args))
    return TERMS[type(term)](term, *args)


def _number(term: Term, table: str = "") -> str:
    return f"({_term(term, table)})::BIGINT" if term.type.kind == "bool" else _term(term, table)


def _binary(sign: str) -> Callable[..., str]:
    return lambda _, left, right: f"({left} {sign} {right})"


def _member(values: Iterable[int], given: str) -> str:
    return f"({given} IN ({_list(map(str, values)) or 'NULL'}) IS TRUE)"


def _match(term: Match, given: str) -> str:
    return f"({given} LIKE {_quoted('%'.join(map(_escaped, term.pieces)))} ESCAPE '$')"


def _table(term: Table, given: str) -> str:
    return f"(({list(term.results)})[({given} - ({term.low}) + 1)::BIGINT])"


def _literal(term: Constant) -> str:
    if isinstance(term.value, str):
        return _quoted(term.value)
    return "NULL" if term.value == NULL else f"({term.value})::BIGINT"


TERMS: dict[type[Term], Callable[..., str]] = {
    **{kind: _binary(sign) for kind, sign in BINARY.items()},
    Constant: _literal,
    Not: lambda _, given: f"(NOT {given})",
    Member: lambda term, given: _member(term.members, given),
    Lookup: lambda term, given: _member([code for code, holds in enumerate(term.results) if holds], given),
    Match: _match,
    Table: _table,
    When: lambda _, test, value, otherwise: f"CASE WHEN {test} THEN {value} ELSE {otherwise} END",
    IsNull: lambda _, given: f"({given} IS NULL)",
    Coalesce: lambda _, given, otherwise: f"coalesce({given}, {otherwise})",
}


def _escaped(text: str) -> str:
    return text.replace("$", "$$").replace("%", "$%").replace("_", "$_")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(name: str) -> str:
    return f'"{name}"'


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts)
