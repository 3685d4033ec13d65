"""Reading: the JSON of DuckDB's optimized plans as operations of the algebra."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.expression_reader import (
    BOOLEAN,
    COMPARISONS,
    Json,
    expression,
    place_of,
    sql_type,
    table_filters,
)
from deltamark.dataflow.sql.algebra.operations import (
    ALL_ROWS,
    AggregateCall,
    Expression,
    JoinKind,
    Order,
    Relational,
)
from deltamark.dataflow.sql.problems import unsupported

ANY_COLUMN = 2**64 - 1
"""DuckDB's number of the column rowid, which it reads also if the rows of a scan are only counted."""

NO_LIMIT = 2**63 - 1
"""DuckDB's count of LIMIT ALL and LIMIT NULL."""

CONSTRUCTS = {
    "LOGICAL_WINDOW": ("a window function", r"\bover\b|\bqualify\b|\blimit\b"),
    "LOGICAL_RECURSIVE_CTE": ("WITH RECURSIVE", r"\brecursive\b"),
    "LOGICAL_UNNEST": ("UNNEST, or a correlated LIMIT above 1", r"\bunnest\b|\blimit\b|\bqualify\b|\bover\b"),
    "LOGICAL_PIVOT": ("PIVOT", r"\bpivot\b"),
    "LOGICAL_POSITIONAL_JOIN": ("POSITIONAL JOIN", r"\bpositional\b"),
    "LOGICAL_ASOF_JOIN": ("ASOF JOIN", r"\basof\b"),
    "LOGICAL_SAMPLE": ("TABLESAMPLE", r"\bsample\b|\btablesample\b"),
}
"""Operations that are not supported, in words, and a pattern for their place in a text."""


def read_plan(plan: Json, columns_of: Mapping[str, Sequence[str]]) -> Relational:
    """Read a plan. columns_of: the columns of each relation, in order."""
    return _Reader(columns_of, Counter(_references(plan))).rows(plan)


def reads_any_column(node: object) -> bool:
    """Return whether a plan reads a column that DuckDB does not number: the rowid, or any, to count rows."""
    indexes = (index for each in _objects(node) for index in each.get("column_indexes", ()))
    return any(each["index"] == ANY_COLUMN for each in indexes)


def _references(node: object) -> Iterator[int]:
    """Yield the number of each common table expression that is read, once for each reference."""
    for each in _objects(node):
        if each.get("type") == "LOGICAL_CTE_REF":
            yield each["cte_index"]


def _objects(node: object) -> Iterator[Json]:
    """Yield all objects of JSON, which may be nested deeply."""
    remaining = [node]
    while remaining:
        each = remaining.pop()
        if isinstance(each, Mapping):
            yield each
            remaining += each.values()
        elif isinstance(each, list):
            remaining += each


class _Reader:
    def __init__(self, columns_of: Mapping[str, Sequence[str]], references: Mapping[int, int]) -> None:
        self._columns_of, self._references = columns_of, references
        self._ctes: dict[int, Relational] = {}
        self._scans: dict[str, algebra.Scan] = {}
        self._readers: dict[str, Callable[[Json], Relational]] = {
            "LOGICAL_GET": self._get, "LOGICAL_FILTER": self._filter, "LOGICAL_PROJECTION": self._projection,
            "LOGICAL_COMPARISON_JOIN": self._join, "LOGICAL_ANY_JOIN": self._join, "LOGICAL_CROSS_PRODUCT": self._cross,
            "LOGICAL_AGGREGATE_AND_GROUP_BY": self._aggregate, "LOGICAL_DISTINCT": self._distinct,
            "LOGICAL_UNION": self._set, "LOGICAL_EXCEPT": self._set, "LOGICAL_INTERSECT": self._set,
            "LOGICAL_TOP_N": self._top, "LOGICAL_LIMIT": self._limit, "LOGICAL_ORDER_BY": self._order,
            "LOGICAL_MATERIALIZED_CTE": self._cte, "LOGICAL_CTE_REF": self._cte_reference,
            "LOGICAL_DUMMY_SCAN": self._one_row, "LOGICAL_EXPRESSION_GET": self._values,
            "LOGICAL_EMPTY_RESULT": self._empty,
        }  # fmt: skip

    def rows(self, node: Json) -> Relational:
        read = self._readers.get(node["type"])
        if read is None:
            name = node["type"].removeprefix("LOGICAL_").replace("_", " ").lower()
            place = next(_places(node.get("expressions", [])), None)
            words, pattern = CONSTRUCTS.get(node["type"], (name, ""))
            raise unsupported(words, place, pattern=pattern)
        return read(node)

    def _below(self, node: Json) -> Relational:
        return self.rows(node["children"][0])

    def _get(self, node: Json) -> Relational:
        name = node.get("function_data", {}).get("table")
        if name not in self._columns_of:
            function = node["qname"]["path"][-1]
            raise unsupported(f"the table function {function}", pattern=rf"\b{re.escape(function)}\s*\(")
        if (node.get("extra_info") or {}).get("sample_options"):
            raise unsupported("TABLESAMPLE", pattern=CONSTRUCTS["LOGICAL_SAMPLE"][1])
        indexes = [each["index"] for each in node["column_indexes"]]
        read = (algebra.column(0 if each == ANY_COLUMN else each) for each in indexes)
        rows: Relational = algebra.Project(self._scan(name), tuple(read))
        conditions = list(table_filters(node["table_filters"]))
        if conditions:
            rows = algebra.Filter(rows, tuple(conditions))
        return _mapped(rows, node["projection_ids"])

    def _scan(self, name: str) -> algebra.Scan:
        """Return the one operation that reads a relation, so that all that read it have the same rows."""
        return self._scans.setdefault(name, algebra.Scan(name, tuple(self._columns_of[name])))

    def _filter(self, node: Json) -> Relational:
        conditions = tuple(map(expression, node["expressions"]))
        return _mapped(_filtered(self._below(node), conditions), node["projection_map"])

    def _projection(self, node: Json) -> Relational:
        below = self._below(node)
        return algebra.Project(below, tuple(map(expression, node["expressions"])))

    def _join(self, node: Json) -> Relational:
        left, right = map(self.rows, node["children"])
        wide = algebra.width(left)
        if "conditions" in node:
            conditions = tuple(self._join_condition(each, wide) for each in node["conditions"])
        else:
            conditions = (expression(node["condition"]),)
        kind = node["join_type"]
        if kind not in ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "MARK", "SINGLE"):
            raise unsupported(f"a join of kind {kind}", pattern=r"\bjoin\b")
        join = algebra.Join(cast("JoinKind", kind), left, right, conditions)
        left_map, right_map = node.get("left_projection_map"), node.get("right_projection_map")
        if not left_map and not right_map:
            return join
        kept = [*(left_map or range(wide))]
        if kind == "MARK":
            kept.append(wide)
        elif kind not in ("SEMI", "ANTI"):
            kept += [wide + each for each in right_map or range(algebra.width(right))]
        return _mapped(join, kept)

    def _join_condition(self, each: Json, wide: int) -> Expression:
        """Read a comparison of both sides, or a condition on the columns of both."""
        if "comparison" not in each or each.get("right") is None:
            return expression(each.get("left") or each["expression"])
        left, right = expression(each["left"]), expression(each["right"])
        right = right.with_columns(lambda key: algebra.column(wide + cast("int", key)))
        return Expression(COMPARISONS[each["comparison"]], BOOLEAN, (left, right))

    def _cross(self, node: Json) -> Relational:
        left, right = map(self.rows, node["children"])
        return algebra.Join("INNER", left, right, ())

    def _aggregate(self, node: Json) -> Relational:
        below = self._below(node)
        if len(node["grouping_sets"]) > 1 or node.get("grouping_functions"):
            raise unsupported("GROUPING SETS, ROLLUP or CUBE", pattern=r"\bgrouping\b|\brollup\b|\bcube\b")
        groups, calls = tuple(map(expression, node["groups"])), tuple(map(self._call, node["expressions"]))
        return algebra.Aggregate(below, groups, calls)

    def _call(self, each: Json) -> AggregateCall:
        name, place = each["qname"]["path"][-1], place_of(each)
        condition = expression(each["filter"]) if each.get("filter") else None
        args, type_ = tuple(map(expression, each["children"])), sql_type(each["return_type"])
        return AggregateCall(name, args, type_, each["aggregate_type"] == "DISTINCT", condition, place)

    def _distinct(self, node: Json) -> Relational:
        if node.get("distinct_type") != "DISTINCT":
            raise unsupported("DISTINCT ON", pattern=r"\bdistinct\s+on\b")
        return algebra.Distinct(self._below(node))

    def _set(self, node: Json) -> Relational:
        kind = node["type"].removeprefix("LOGICAL_")
        if kind != "UNION" and node.get("setop_all"):
            raise unsupported(f"{kind} ALL", pattern=rf"\b{kind}\s+all\b")
        parts = tuple(map(self.rows, node["children"]))
        union = algebra.SetOperation(kind, parts)
        return algebra.Distinct(union) if kind == "UNION" and not node.get("setop_all") else union

    def _top(self, node: Json) -> Relational:
        return algebra.Limit(self._below(node), self._orders(node), node["limit"], node["offset"])

    def _orders(self, node: Json) -> tuple[Order, ...]:
        return tuple(
            Order(expression(each["expression"]), each["type"] == "DESCENDING", each["null_order"] == "NULLS FIRST")
            for each in node["orders"]
        )

    def _limit(self, node: Json) -> Relational:
        count, offset = (node[f"{each}_val"] for each in ("limit", "offset"))
        for each in (count, offset):
            if each["type"] not in ("CONSTANT_VALUE", "UNSET"):
                raise unsupported("a LIMIT or OFFSET that is no constant", pattern=r"\blimit\b|\boffset\b")
        most = count["constant_integer"] if count["type"] == "CONSTANT_VALUE" else ALL_ROWS
        most = ALL_ROWS if most == NO_LIMIT else most
        return self._limited(node["children"][0], most, offset["constant_integer"])

    def _limited(self, node: Json, count: int, offset: int) -> Relational:
        """Read an operation below a limit, which has an order if there is an ORDER BY below projections alone."""
        match node["type"]:
            case "LOGICAL_PROJECTION":
                below = self._limited(node["children"][0], count, offset)
                return algebra.Project(below, tuple(map(expression, node["expressions"])))
            case "LOGICAL_ORDER_BY":
                limit = algebra.Limit(self._below(node), self._orders(node), count, offset)
                return _mapped(limit, node.get("projections") or [])
        return algebra.Limit(self.rows(node), (), count, offset)

    def _order(self, node: Json) -> Relational:
        below = self._below(node)
        return _mapped(below, node.get("projections") or [])

    def _cte(self, node: Json) -> Relational:
        index, definition = node["table_index"], self._below(node)
        self._ctes[index] = algebra.Shared(definition) if self._references[index] > 1 else definition
        return self.rows(node["children"][1])

    def _cte_reference(self, node: Json) -> Relational:
        if node["cte_index"] not in self._ctes:
            words, pattern = CONSTRUCTS["LOGICAL_RECURSIVE_CTE"]
            raise unsupported(words, pattern=pattern)
        return self._ctes[node["cte_index"]]

    def _one_row(self, _node: Json) -> Relational:
        return algebra.Constants((), ((),))

    def _values(self, node: Json) -> Relational:
        rows = tuple(tuple(map(expression, row)) for row in node["expressions"])
        return algebra.Constants(tuple(map(sql_type, node["expr_types"])), rows)

    def _empty(self, node: Json) -> Relational:
        return algebra.Constants(tuple(map(sql_type, node["return_types"])), ())


def _places(node: object) -> Iterator[int]:
    """Yield the places of an expression and those below it."""
    if isinstance(node, Mapping):
        if (place := place_of(node)) is not None:
            yield place
        for each in node.values():
            yield from _places(each)
    elif isinstance(node, list):
        for each in node:
            yield from _places(each)


def _mapped(rows: Relational, kept: Sequence[int]) -> Relational:
    """Keep some columns; an empty list keeps all."""
    return algebra.Project(rows, tuple(map(algebra.column, kept))) if kept else rows


def _filtered(rows: Relational, conditions: Sequence[Expression]) -> Relational:
    """Filter rows. The condition that a mark holds, or does not, becomes a SEMI join or an ANTI join."""
    rest = [part for each in conditions for part in _conjuncts(each)]
    if isinstance(rows, algebra.Join) and rows.kind == "MARK":
        mark = algebra.width(rows) - 1
        for each in rest:
            negated = each.op == "not"
            of = each.args[0] if negated else each
            if of.op == "column" and of.value == mark:
                join = algebra.Join("ANTI" if negated else "SEMI", rows.left, rows.right, rows.conditions, negated)
                known = Expression("constant", BOOLEAN, value=not negated)
                rest.remove(each)
                below = algebra.Project(join, (*algebra.columns(mark), known))
                return algebra.Filter(below, tuple(rest)) if rest else below
    return algebra.Filter(rows, tuple(rest))


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    if condition.op != "and":
        yield condition
        return
    for each in condition.args:
        yield from _conjuncts(each)
