"""Reading: the JSON of DuckDB's optimized plans as operations of the algebra."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import get_args

from deltamark.dataflow.scalars.expressions import Column, Constant, Expression, Not, SqlType, conjuncts
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.expression_reader import BOOLEAN, ExpressionReader
from deltamark.dataflow.sql.algebra.operations import ALL_ROWS, JoinKind, Order, Relational
from deltamark.dataflow.sql.fragments import Json, objects
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.written import SEVERAL_ROWS, Written

ANY_COLUMN = 2**64 - 1
"""DuckDB's number of the column rowid, which it reads also if the rows of a scan are only counted."""

NO_LIMIT = 2**63 - 1
"""DuckDB's count of LIMIT ALL and LIMIT NULL."""

NUMBER = SqlType("INTEGER")

JOIN_KINDS: tuple[JoinKind, ...] = get_args(JoinKind)


def read_plan(plan: Json, columns_of: Mapping[str, Sequence[str]], written: Written) -> Relational:
    """Read a plan. columns_of: the columns of each relation, in order; written: the text that it is the plan of."""
    return _Reader(columns_of, Counter(_references(plan)), written).rows(plan)


def reads_any_column(node: object) -> bool:
    """Return whether a plan reads a column that DuckDB does not number: the rowid, or any, to count rows."""
    indexes = (index for each in objects(node) for index in each.get("column_indexes", ()))
    return any(each["index"] == ANY_COLUMN for each in indexes)


def _references(node: object) -> Iterator[int]:
    """Yield the number of each common table expression that is read, once for each reference."""
    for each in objects(node):
        if each.get("type") == "LOGICAL_CTE_REF":
            yield each["cte_index"]


class _Reader:
    def __init__(
        self, columns_of: Mapping[str, Sequence[str]], references: Mapping[int, int], written: Written
    ) -> None:
        self._columns_of, self._references, self._written = columns_of, references, written
        self._expressions = ExpressionReader(written)
        self._expression = self._expressions.expression
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
            "LOGICAL_EMPTY_RESULT": self._empty, "LOGICAL_WINDOW": self._window, "LOGICAL_UNNEST": self._unnest,
            "LOGICAL_SAMPLE": self._sample, "LOGICAL_POSITIONAL_JOIN": self._positional,
            "LOGICAL_ASOF_JOIN": self._asof, "LOGICAL_RECURSIVE_CTE": self._recursive,
        }  # fmt: skip

    def rows(self, node: Json) -> Relational:
        read = self._readers.get(node["type"])
        if read is None:
            name = node["type"].removeprefix("LOGICAL_").replace("_", " ").lower()
            raise unsupported(name)
        return read(node)

    def _refused(self, rows: Relational, *constructs: str, added: int = 0) -> algebra.Refused:
        """Return an operation that is not supported, so that reading goes on. constructs: what the text may have."""
        return algebra.Refused(rows, added, unsupported(*self._written.construct(constructs)))

    def _window(self, node: Json) -> Relational:
        words, place = self._written.construct(("a window function", "a correlated LIMIT above 1"))
        words = words if place.fragments else "a correlated subquery of which DuckDB's plan has a window function"
        return algebra.Refused(self._below(node), len(node["expressions"]), unsupported(words, place))

    def _unnest(self, node: Json) -> Relational:
        constructs = "UNNEST", "UNPIVOT", "a correlated LIMIT above 1", "a window function"
        words, place = self._written.construct(constructs)
        rows, added = self._below(node), len(node["expressions"])
        if words == "UNPIVOT":  # the lists below are DuckDB's
            rows, added = algebra.Constants((), ((),)), algebra.width(rows) + added
        return algebra.Refused(rows, added, unsupported(words, place))

    def _sample(self, node: Json) -> Relational:
        return self._refused(self._below(node), "TABLESAMPLE")

    def _positional(self, node: Json) -> Relational:
        return self._refused(self._cross(node), "POSITIONAL JOIN")

    def _asof(self, node: Json) -> Relational:
        return self._refused(self._cross(node), "ASOF JOIN")

    def _recursive(self, node: Json) -> Relational:
        self._ctes[node["table_index"]] = self.rows(node["children"][0])
        parts = tuple(map(self.rows, node["children"]))
        return self._refused(algebra.SetOperation("UNION", parts), "WITH RECURSIVE")

    def _below(self, node: Json) -> Relational:
        return self.rows(node["children"][0])

    def _get(self, node: Json) -> Relational:
        name = node.get("function_data", {}).get("table")
        indexes = [each["index"] for each in node["column_indexes"]]
        if name in self._columns_of:
            read = (Column(0 if each == ANY_COLUMN else each) for each in indexes)
            rows: Relational = algebra.Project(self._scan(name), tuple(read))
        else:
            function = node["qname"]["path"][-1]
            error = unsupported(*self._written.table_function(function))
            rows = algebra.Refused(algebra.Constants((), ((),)), len(indexes), error)
        if (node.get("extra_info") or {}).get("sample_options"):
            rows = self._refused(rows, "TABLESAMPLE")
        conditions = list(self._expressions.table_filters(node["table_filters"]))
        if conditions:
            rows = algebra.Filter(rows, tuple(conditions))
        return _mapped(rows, node["projection_ids"])

    def _scan(self, name: str) -> algebra.Scan:
        """Return the one operation that reads a relation, so that all that read it have the same rows."""
        return self._scans.setdefault(name, algebra.Scan(name, tuple(self._columns_of[name])))

    def _filter(self, node: Json) -> Relational:
        conditions = tuple(map(self._expression, node["expressions"]))
        return _mapped(_filtered(self._below(node), conditions), node["projection_map"])

    def _projection(self, node: Json) -> Relational:
        below = self._below(node)
        return algebra.Project(below, tuple(map(self._expression, node["expressions"])))

    def _join(self, node: Json) -> Relational:
        left, right = map(self.rows, node["children"])
        wide = algebra.width(left)
        if "conditions" in node:
            conditions = tuple(self._expressions.join_condition(each, wide) for each in node["conditions"])
        else:
            conditions = (self._expression(node["condition"]),)
        kind = next((each for each in JOIN_KINDS if each == node["join_type"]), None)
        if kind is None:
            raise unsupported(f"a join of kind {node['join_type']}")
        _, place = self._written.construct([SEVERAL_ROWS], lambda: _tables(node["children"][1]))
        join = algebra.Join(kind, left, right, conditions, place=place)
        left_map, right_map = node.get("left_projection_map"), node.get("right_projection_map")
        if not left_map and not right_map:
            return join
        kept = [*(left_map or range(wide))]
        if kind == "MARK":
            kept.append(wide)
        elif kind not in ("SEMI", "ANTI"):
            kept += [wide + each for each in right_map or range(algebra.width(right))]
        return _mapped(join, kept)

    def _cross(self, node: Json) -> Relational:
        left, right = map(self.rows, node["children"])
        return algebra.Join("INNER", left, right, ())

    def _aggregate(self, node: Json) -> Relational:
        below = self._below(node)
        groups = tuple(map(self._expression, node["groups"]))
        calls = tuple(self._expressions.call(each, lambda: _tables(node)) for each in node["expressions"])
        rows = algebra.Aggregate(below, groups, calls)
        functions = node.get("grouping_functions") or ()
        if len(node["grouping_sets"]) <= 1 and not functions:
            return rows
        return self._refused(rows, "GROUPING SETS, ROLLUP or CUBE", added=len(functions))

    def _distinct(self, node: Json) -> Relational:
        if node.get("distinct_type") != "DISTINCT":
            return self._refused(self._below(node), "DISTINCT ON")
        return algebra.Distinct(self._below(node))

    def _set(self, node: Json) -> Relational:
        kind = node["type"].removeprefix("LOGICAL_")
        parts = tuple(map(self.rows, node["children"]))
        union = algebra.SetOperation(kind, parts)
        if kind != "UNION" and node.get("setop_all"):
            return self._refused(union, f"{kind} ALL")
        return algebra.Distinct(union) if kind == "UNION" and not node.get("setop_all") else union

    def _top(self, node: Json) -> Relational:
        return algebra.Limit(self._below(node), self._orders(node), node["limit"], node["offset"])

    def _orders(self, node: Json) -> tuple[Order, ...]:
        return tuple(
            Order(
                self._expression(each["expression"]), each["type"] == "DESCENDING", each["null_order"] == "NULLS FIRST"
            )
            for each in node["orders"]
        )

    def _limit(self, node: Json) -> Relational:
        count, offset = (node[f"{each}_val"] for each in ("limit", "offset"))
        for each, construct in ((count, "a LIMIT that is no constant"), (offset, "an OFFSET that is no constant")):
            if each["type"] not in ("CONSTANT_VALUE", "UNSET"):
                return self._refused(self._below(node), construct)
        most = count["constant_integer"] if count["type"] == "CONSTANT_VALUE" else ALL_ROWS
        most = ALL_ROWS if most == NO_LIMIT else most
        return self._limited(node["children"][0], most, offset["constant_integer"])

    def _limited(self, node: Json, count: int, offset: int) -> Relational:
        """Read an operation below a limit, which has an order if there is an ORDER BY below projections alone."""
        match node["type"]:
            case "LOGICAL_PROJECTION":
                below = self._limited(node["children"][0], count, offset)
                return algebra.Project(below, tuple(map(self._expression, node["expressions"])))
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
        return self._ctes[node["cte_index"]]

    def _one_row(self, _node: Json) -> Relational:
        """Read the row of a query without FROM. It has a column, which is only counted."""
        return algebra.Constants((NUMBER,), ((Constant(NUMBER, 0),),))

    def _values(self, node: Json) -> Relational:
        rows = tuple(tuple(map(self._expression, row)) for row in node["expressions"])
        return algebra.Constants(tuple(map(self._expressions.type_of, node["expr_types"])), rows)

    def _empty(self, node: Json) -> Relational:
        return algebra.Constants(tuple(map(self._expressions.type_of, node["return_types"])), ())


def _tables(node: object) -> frozenset[str]:
    """Return the relations that a part of a plan reads."""
    scans = (each.get("function_data") or {} for each in objects(node) if each.get("type") == "LOGICAL_GET")
    return frozenset(str(each["table"]).lower() for each in scans if "table" in each)


def _mapped(rows: Relational, kept: Sequence[int]) -> Relational:
    """Keep some columns; an empty list keeps all."""
    return algebra.Project(rows, tuple(map(Column, kept))) if kept else rows


def _filtered(rows: Relational, conditions: Sequence[Expression[int]]) -> Relational:
    """Filter rows. The condition that a mark holds, or does not, becomes a SEMI join or an ANTI join."""
    rest = [part for each in conditions for part in conjuncts(each)]
    if isinstance(rows, algebra.Join) and rows.kind == "MARK":
        mark = algebra.width(rows) - 1
        for each in rest:
            negated = isinstance(each, Not)
            of = each.condition if isinstance(each, Not) else each
            if isinstance(of, Column) and of.key == mark:
                join = algebra.Join("ANTI" if negated else "SEMI", rows.left, rows.right, rows.conditions, negated)
                known = Constant[int](BOOLEAN, not negated)
                rest.remove(each)
                below = algebra.Project(join, (*algebra.columns(mark), known))
                return algebra.Filter(below, tuple(rest)) if rest else below
    return algebra.Filter(rows, tuple(rest))
