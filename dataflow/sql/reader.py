"""Reading: the JSON of DuckDB's optimized plans as collections.

Each operator of DuckDB is read by one method, from the inputs up. Filters, projections and inner joins only compose
expressions over the rows below; other operators store values in columns. The joins have DuckDB's order, which a pass
over the finished plan changes (`dataflow/passes/optimize.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.passes.join_tree import is_joined, taken_apart
from deltamark.dataflow.plan.terms import number
from deltamark.dataflow.scalars.expressions import Column, Constant, Expression, Not, SqlType, conjuncts
from deltamark.dataflow.scalars.problems import FollowUpError
from deltamark.dataflow.scalars.values import TRUE, Cell, Refused, Truth, Value, constant
from deltamark.dataflow.sql import joins
from deltamark.dataflow.sql.diagnosis import Columns, Diagnosis, Origin, nowhere
from deltamark.dataflow.sql.expression_reader import BOOLEAN, ExpressionReader
from deltamark.dataflow.sql.fragments import Json, references, scalar_subqueries
from deltamark.dataflow.sql.grouping_sets import grouped_by_sets
from deltamark.dataflow.sql.groups import AggregateCall, aggregated, is_first_of_one, only_row
from deltamark.dataflow.sql.planner import ANY_COLUMN
from deltamark.dataflow.sql.problems import SqlError, unsupported
from deltamark.dataflow.sql.recursion import Recursion
from deltamark.dataflow.sql.rows import Order, Rows, distinct, limited, scanned, standing_in, without_unread_columns
from deltamark.dataflow.sql.series import rows_of, series
from deltamark.dataflow.sql.windows import WindowCall, first_of_each, limits_of, windowed
from deltamark.dataflow.sql.written import Place, Written

ALL_ROWS = 2**64 - 1
"""DuckDB's count of a limit without one."""

NO_LIMIT = 2**63 - 1
"""DuckDB's count of LIMIT ALL and LIMIT NULL."""

NUMBER = SqlType("INTEGER")


@dataclass(frozen=True)
class Table:
    """Rows, and the columns of SQL as expressions over their values.

    origins: the places of the values in the text.
    """

    rows: Rows
    columns: tuple[Expression[int], ...]
    origins: tuple[Origin, ...]
    is_refused: bool = False
    """Whether the rows stand in for those of joins and filters, of which a condition is refused."""

    @classmethod
    def of(cls, rows: Rows, origins: Sequence[Origin]) -> Table:
        """Return rows whose values are the columns."""
        return cls(rows, tuple(map(Column, range(len(rows.cells)))), tuple(origins))

    @property
    def width(self) -> int:
        return len(self.columns)

    def over(self, of: Expression[int]) -> Expression[int]:
        """Return an expression over the columns as one over the values."""
        return of.with_columns(self.columns.__getitem__)

    def project(self, expressions: Sequence[Expression[int]]) -> Table:
        return replace(self, columns=tuple(map(self.over, expressions)))

    def kept(self, columns: Sequence[int]) -> Table:
        """Keep some columns; an empty list keeps all."""
        return replace(self, columns=tuple(self.columns[each] for each in columns)) if columns else self

    def beside(self, other: Table) -> Table:
        """Return the columns of pairs. The rows are those of this table."""
        wide = len(self.origins)
        moved = (each.with_columns(lambda key: Column(key + wide)) for each in other.columns)
        return Table(self.rows, (*self.columns, *moved), (*self.origins, *other.origins))


class Settled(NamedTuple):
    """Rows whose values are the columns of SQL, with their origins."""

    rows: Rows
    origins: tuple[Origin, ...]

    @property
    def columns(self) -> Columns:
        return Columns(self.rows.cells, self.origins)


class Reader:
    """Reads one plan. relations: by the names that the text gives them; written: the text that it is the plan of."""

    def __init__(self, plan: Json, relations: Mapping[str, Collection], written: Written) -> None:
        self._plan, self._relations, self._written = plan, relations, written
        self._references = Counter(references(plan))
        aggregates = list(scalar_subqueries(plan))
        if None in aggregates:
            raise unsupported("a scalar subquery that may have several rows, in this place")
        self._scalar_subqueries = set(map(id, aggregates))
        """The aggregates that take the values of a scalar subquery, as DuckDB plans one that may have several rows."""
        self._expressions = ExpressionReader(written)
        self._expression = self._expressions.expression
        self._ctes: dict[int, Table] = {}
        self._diagnosis = Diagnosis()
        self.whole: set[Node] = set()
        """The nodes of common table expressions that are read several times."""
        self._readers: dict[str, Callable[[Json], Table]] = {
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

    @property
    def problems(self) -> Sequence[SqlError]:
        """The problems of the plan. If there are any, no rows are of use."""
        return self._diagnosis.problems

    def rows(self) -> Rows:
        """Return the rows of the plan."""
        return self._settled(self._plan).rows

    def _table(self, node: Json) -> Table:
        read = self._readers.get(node["type"])
        if read is None:
            name = node["type"].removeprefix("LOGICAL_").replace("_", " ").lower()
            raise unsupported(name)
        return read(node)

    def _below(self, node: Json) -> Table:
        return self._table(node["children"][0])

    def _settled(self, node: Json) -> Settled:
        """Read an operator whose values others store, compare or add up."""
        return self._settle(self._table(node))

    def _settle(self, table: Table) -> Settled:
        columns = Columns(table.rows.cells, table.origins)
        rows = self._diagnosis.made(
            lambda: self._bounded(table.rows).project(table.columns),
            lambda: [self._diagnosis.expression(each, columns) for each in table.columns],
        )
        return Settled(rows, tuple(map(columns.origin, table.columns)))

    def _settled_below(self, node: Json) -> Settled:
        return self._settled(node["children"][0])

    def _bounded(self, rows: Rows) -> Rows:
        """Return rows with the best bound on their number, which does not depend on the order of joins."""
        node = rows.collection.node
        if not is_joined(node) or node in self.whole:
            return rows
        most = taken_apart(node, self.whole.__contains__).most_rows
        return rows.with_node(replace(node, schema=replace(node.schema, rows=min(most, node.schema.rows))))

    def _refused(self, below: Settled, *constructs: str, added: int = 0) -> Table:
        """Return an operator that is not supported, so that reading goes on. constructs: what the text may have."""
        return self._unsupported(below, added, unsupported(*self._written.construct(constructs)))

    def _unsupported(self, below: Settled, added: int, error: SqlError) -> Table:
        """Add a problem; return rows that stand in for columns of rows, and then others of which nothing is known."""
        self._diagnosis.add(error)
        rows = self._diagnosis.made(_raise_follow_up, lambda: [*below.rows.cells, *(Refused() for _ in range(added))])
        return Table.of(rows, [*below.origins, *([nowhere] * added)])

    def _window(self, node: Json, conditions: Sequence[Expression[int]] = ()) -> Table:
        """Read functions over windows. conditions: those of a filter above, which may limit a place."""
        below = self._settled_below(node)
        rows, columns, wide = below.rows, below.columns, len(below.origins)
        calls = list(map(self._expressions.window, node["expressions"]))
        limits = {key - wide: most for key, most in limits_of(conditions).items() if key >= wide}

        def examined() -> Sequence[Cell]:
            return [*rows.cells, *(self._diagnosis.window(each, rows, columns) for each in calls)]

        made = self._diagnosis.made(lambda: windowed(rows, calls, limits), examined)
        return Table.of(made, [*below.origins, *(partial(_place, each) for each in calls)])

    def _unnest(self, node: Json) -> Table:
        words, place = self._written.construct(("UNNEST", "UNPIVOT"))
        table, added = self._below(node), len(node["expressions"])
        if words == "UNPIVOT":  # the lists below are DuckDB's
            return self._unsupported(Settled(self._nothing, ()), table.width + added, unsupported(words, place))
        return self._unsupported(self._settle(table), added, unsupported(words, place))

    def _sample(self, node: Json) -> Table:
        return self._refused(self._settled_below(node), "TABLESAMPLE")

    def _positional(self, node: Json) -> Table:
        return self._refused(self._beside(node), "POSITIONAL JOIN")

    def _asof(self, node: Json) -> Table:
        return self._refused(self._beside(node), "ASOF JOIN")

    def _beside(self, node: Json) -> Settled:
        """Read two inputs of an operator that is not supported."""
        left, right = map(self._settled, node["children"])
        return Settled(left.rows.with_cells((*left.rows.cells, *right.rows.cells)), (*left.origins, *right.origins))

    def _recursive(self, node: Json) -> Table:
        first, known = self._settled(node["children"][0]), len(self._diagnosis.problems)

        def body(rows: Rows) -> Rows:
            self._ctes[node["table_index"]] = Table.of(rows, first.origins)
            derived = self._settled(node["children"][1]).rows
            if len(self._diagnosis.problems) > known:
                raise FollowUpError
            return derived

        _, place = self._written.construct(["WITH RECURSIVE"])
        rows = self._diagnosis.tried(Recursion(first.rows, body, keeps_copies=node["union_all"]).rows, place)
        return Table.of(standing_in(first.rows.cells) if isinstance(rows, Refused) else rows, first.origins)

    def _get(self, node: Json) -> Table:
        name = node.get("function_data", {}).get("table")
        indexes = [each["index"] for each in node["column_indexes"]]
        if name in self._relations:
            relation = self._relations[name]
            rows = scanned(relation, relation.schema.names)
            table = Table.of(rows, [nowhere] * len(rows.cells)).kept([0 if at == ANY_COLUMN else at for at in indexes])
        elif (numbers := series(node)) is not None:
            _, place = self._written.table_function(node["qname"]["path"][-1])
            found = self._diagnosis.tried(partial(rows_of, numbers, self._one), place)
            table = Table.of(standing_in([Value(number(0))]) if isinstance(found, Refused) else found, [nowhere])
        else:
            error = unsupported(*self._written.table_function(node["qname"]["path"][-1]))
            table = self._unsupported(Settled(self._nothing, ()), len(indexes) + len(node["projected_input"]), error)
        if (node.get("extra_info") or {}).get("sample_options"):
            table = self._refused(Settled(table.rows.project(table.columns), (nowhere,) * table.width), "TABLESAMPLE")
        conditions = list(self._expressions.table_filters(node["table_filters"]))
        return self._filtered(table, conditions).kept(node["projection_ids"])

    def _filter(self, node: Json) -> Table:
        conditions = [part for each in node["expressions"] for part in conjuncts(self._expression(each))]
        return self._over_mark(node["children"][0], conditions).kept(node["projection_map"])

    def _filtered(self, table: Table, conditions: Sequence[Expression[int]]) -> Table:
        if not conditions:
            return table
        over, read = list(map(table.over, conditions)), Columns(table.rows.cells, table.origins)
        return self._joined(table, read, lambda: table.rows.where(*map(table.rows.truth, over)), over)

    def _over_mark(self, node: Json, conditions: list[Expression[int]]) -> Table:
        """Filter rows. The condition that a mark holds, or does not, becomes a semijoin or an antijoin."""
        if node.get("join_type") == "MARK" and not node.get("left_projection_map"):
            left, right = map(self._table, node["children"])
            for each in conditions:
                of = each.condition if isinstance(each, Not) else each
                if isinstance(of, Column) and of.key == left.width:
                    negated = isinstance(each, Not)
                    kind = "ANTI" if negated else "SEMI"
                    table = self._partnered(node, kind, left, right, knows_null=negated)
                    marked = replace(table, columns=(*table.columns, Constant(BOOLEAN, not negated)))
                    return self._filtered(marked, [other for other in conditions if other is not each])
            return self._filtered(self._marked(node, left, right), conditions)
        if node["type"] == "LOGICAL_WINDOW":
            return self._filtered(self._window(node, conditions), conditions)
        return self._filtered(self._table(node), conditions)

    def _projection(self, node: Json) -> Table:
        return self._below(node).project([self._expression(each) for each in node["expressions"]])

    def _join(self, node: Json) -> Table:
        left, right = map(self._table, node["children"])
        kind = node["join_type"]
        match kind:
            case "INNER":
                table = self._paired(node, left, right)
            case "SEMI" | "ANTI":
                table = self._partnered(node, kind, left, right, knows_null=False)
            case "MARK":
                table = self._marked(node, left, right)
            case "LEFT" | "SINGLE" | "RIGHT" | "FULL":
                table = self._outer(node, left, right)
            case _:
                raise unsupported(f"a join of kind {kind}")
        left_map, right_map = node.get("left_projection_map"), node.get("right_projection_map")
        if not left_map and not right_map:
            return table
        kept = [*(left_map or range(left.width))]
        if kind == "MARK":
            kept.append(left.width)
        elif kind not in ("SEMI", "ANTI"):
            kept += [left.width + each for each in right_map or range(right.width)]
        return table.kept(kept)

    def _conditions(self, node: Json, wide: int) -> list[Expression[int]]:
        """Read the conditions of a join. wide: the number of left columns."""
        if "conditions" in node:
            return [self._expressions.join_condition(each, wide) for each in node["conditions"]]
        return [self._expression(node["condition"])] if "condition" in node else []

    def _paired(self, node: Json, left: Table, right: Table) -> Table:
        """Pair rows. The values of the pairs are those of both sides."""
        both = left.beside(right)
        conditions = list(map(both.over, self._conditions(node, left.width)))
        both = replace(both, is_refused=left.is_refused or right.is_refused)
        read = Columns([*left.rows.cells, *right.rows.cells], both.origins)
        return self._joined(both, read, lambda: joins.pairs(left.rows, right.rows, conditions), conditions)

    def _joined(
        self, table: Table, read: Columns, make: Callable[[], Rows], conditions: Sequence[Expression[int]]
    ) -> Table:
        """Make the rows of a filter or a join. read: what the conditions read, first the values of the table.

        If a condition is refused, rows stand in for those of all joins around it, too.
        """
        refused: list[None] = []

        def examined() -> Sequence[Cell]:
            refused.append(None)
            self._diagnosis.conditions(conditions, read)
            return read.cells[: len(table.origins)]

        rows = self._diagnosis.made(make, examined)
        is_refused = table.is_refused or bool(refused)
        return replace(table, rows=standing_in(rows.cells) if is_refused else rows, is_refused=is_refused)

    def _partnered(self, node: Json, kind: str, left: Table, right: Table, *, knows_null: bool) -> Table:
        """Keep left rows with a partner, or without one. knows_null: nor one for which a condition is NULL."""
        right = replace(right, rows=self._bounded(right.rows))
        both = left.beside(right)
        conditions = list(map(both.over, self._conditions(node, left.width)))

        def make() -> Rows:
            if kind == "SEMI":
                return joins.partnered(left.rows, right.rows, conditions, are_kept=True)
            return joins.without_match(left.rows, right.rows, conditions, knows_null=knows_null)

        left = replace(left, is_refused=left.is_refused or right.is_refused)
        read = Columns([*left.rows.cells, *right.rows.cells], both.origins)
        return self._joined(left, read, make, conditions)

    def _marked(self, node: Json, left: Table, right: Table) -> Table:
        left, right = (Table.of(*self._settle(each)) for each in (left, right))
        both, conditions = left.beside(right), self._conditions(node, left.width)

        def examined() -> Sequence[Cell]:
            self._diagnosis.conditions(conditions, Columns([*left.rows.cells, *right.rows.cells], both.origins))
            return [*left.rows.cells, Truth.of(TRUE)]

        rows = self._diagnosis.made(lambda: joins.marked(left.rows, right.rows, conditions), examined)
        return Table.of(rows, [*left.origins, nowhere])

    def _outer(self, node: Json, left: Table, right: Table) -> Table:
        left, right = (Table.of(*self._settle(each)) for each in (left, right))
        kind = node["join_type"]
        both, conditions = left.beside(right), self._conditions(node, left.width)

        def make() -> Rows:
            if kind in ("LEFT", "SINGLE"):
                join = joins.left_joined if kind == "LEFT" else joins.single_joined
                return join(left.rows, right.rows, conditions)
            return joins.outer(left.rows, right.rows, conditions, keeps_left=kind == "FULL")

        def examined() -> Sequence[Cell]:
            cells = [*left.rows.cells, *right.rows.cells]
            self._diagnosis.conditions(conditions, Columns(cells, both.origins))
            return cells

        return Table.of(self._diagnosis.made(make, examined), both.origins)

    def _cross(self, node: Json) -> Table:
        left, right = map(self._table, node["children"])
        return self._paired(node, left, right)

    def _aggregate(self, node: Json) -> Table:
        below = self._settled_below(node)
        rows, columns = below.rows, below.columns
        groups = [self._expression(each) for each in node["groups"]]
        calls = [self._expressions.call(each) for each in node["expressions"]]
        sets, functions = node.get("grouping_sets") or (), node.get("grouping_functions") or ()
        is_row = id(node) in self._scalar_subqueries or is_first_of_one(rows, groups, calls)

        def make() -> Rows:
            if is_row:
                return only_row(rows, calls)
            if len(sets) > 1 or functions:
                return grouped_by_sets(rows, groups, sets, calls, functions)
            return aggregated(rows, groups, calls)

        def examined() -> Sequence[Cell]:
            zero = Value(number(0))
            if is_row:
                return [self._diagnosis.expression(each.args[0], columns) if each.args else zero for each in calls]
            found = [self._diagnosis.expression(each, columns) for each in groups]
            keys = [each for each, cell in zip(groups, found, strict=True) if not isinstance(cell, Refused)]
            results = [self._diagnosis.aggregate(each, rows, keys, columns) for each in calls]
            return [*found, *results, *(zero for _ in functions)]

        origins: list[Origin] = [*map(columns.origin, groups), *(partial(_place, each) for each in calls)]
        return Table.of(self._diagnosis.made(make, examined), [*origins, *([nowhere] * len(functions))])

    def _distinct(self, node: Json) -> Table:
        below = self._settled_below(node)
        if node.get("distinct_type") != "DISTINCT":
            return self._distinct_on(node, below)
        return Table.of(*self._made_distinct(below))

    def _distinct_on(self, node: Json, below: Settled) -> Table:
        targets = [self._expression(each) for each in node["distinct_targets"]]
        orders = self._orders(node.get("order_by") or {"orders": ()})

        def examined() -> Sequence[Cell]:
            for each in (*targets, *(order.expression for order in orders)):
                self._diagnosis.expression(each, below.columns)
            return below.rows.cells

        made = self._diagnosis.made(lambda: first_of_each(below.rows, targets, orders), examined)
        return Table.of(made, below.origins)

    def _made_distinct(self, below: Settled) -> Settled:
        return below._replace(rows=self._diagnosis.made(lambda: distinct(below.rows), lambda: below.rows.cells))

    def _set(self, node: Json) -> Table:
        kind, is_all = node["type"].removeprefix("LOGICAL_"), node.get("setop_all")
        parts = list(map(self._settled, node["children"]))
        if kind != "UNION" and not is_all:
            parts = list(map(self._made_distinct, parts))
        rows = [each.rows for each in parts]

        def make() -> Rows:
            if kind == "UNION":
                return joins.union(rows)
            one, other = map(joins.copies if is_all else distinct, joins.aligned(rows))
            shared = Rows(one.collection.concat(other.collection).threshold(2), one.cells)
            return joins.restored(shared if kind == "INTERSECT" else joins.rest(one, shared))

        origins = parts[0].origins
        result = Settled(
            self._diagnosis.made(make, lambda: self._diagnosis.unified([each.cells for each in rows], origins)), origins
        )
        return Table.of(*(self._made_distinct(result) if kind == "UNION" and not is_all else result))

    def _top(self, node: Json) -> Table:
        return self._first(self._settled_below(node), self._orders(node), node["limit"], node["offset"])

    def _orders(self, node: Json) -> list[Order]:
        return list(self._expressions.orders(node["orders"]))

    def _first(self, below: Settled, orders: Sequence[Order], count: int, offset: int) -> Table:
        def examined() -> Sequence[Cell]:
            for each in orders:
                self._diagnosis.expression(each.expression, below.columns)
            return below.rows.cells

        most = None if count == ALL_ROWS else count
        return Table.of(
            self._diagnosis.made(lambda: limited(below.rows, orders, most, offset), examined), below.origins
        )

    def _limit(self, node: Json) -> Table:
        count, offset = (node[f"{each}_val"] for each in ("limit", "offset"))
        for each, construct in ((count, "a LIMIT that is no constant"), (offset, "an OFFSET that is no constant")):
            if each["type"] not in ("CONSTANT_VALUE", "UNSET"):
                return self._refused(self._settled_below(node), construct)
        most = count["constant_integer"] if count["type"] == "CONSTANT_VALUE" else ALL_ROWS
        most = ALL_ROWS if most == NO_LIMIT else most
        return self._limited(node["children"][0], most, offset["constant_integer"])

    def _limited(self, node: Json, count: int, offset: int) -> Table:
        """Read an operator below a limit, which has an order if there is an ORDER BY below projections alone."""
        match node["type"]:
            case "LOGICAL_PROJECTION":
                below = self._limited(node["children"][0], count, offset)
                return below.project([self._expression(each) for each in node["expressions"]])
            case "LOGICAL_ORDER_BY":
                first = self._first(self._settled_below(node), self._orders(node), count, offset)
                return first.kept(node.get("projections") or [])
        return self._first(self._settled(node), [], count, offset)

    def _order(self, node: Json) -> Table:
        return self._below(node).kept(node.get("projections") or [])

    def _cte(self, node: Json) -> Table:
        index = node["table_index"]
        if self._references[index] > 1:
            rows, origins = self._settled_below(node)
            rows = without_unread_columns(rows)
            self.whole.add(rows.collection.node)
            self._ctes[index] = Table.of(rows, origins)
        else:
            self._ctes[index] = self._below(node)
        return self._table(node["children"][1])

    def _cte_reference(self, node: Json) -> Table:
        return self._ctes[node["cte_index"]]

    @property
    def _nothing(self) -> Rows:
        """No rows, without columns."""
        return Rows(next(iter(self._relations.values())), ()).where(Truth.of(None))

    @property
    def _one(self) -> Rows:
        """One row, without columns."""
        node = self._nothing.collection.or_null().node
        return Rows(Collection(replace(node, schema=replace(node.schema, rows=1))), ())

    def _constants(self, types: Sequence[SqlType], rows: Sequence[Sequence[Expression[int]]]) -> Table:
        """Return rows of constant expressions. types: those of the columns."""

        def make() -> Rows:
            if not rows:
                return self._nothing.with_cells(constant(each, None) for each in types)
            made = list(map(self._one.project, rows))
            return joins.union(made) if len(made) > 1 else made[0]

        def examined() -> Sequence[Cell]:
            none = Columns((), ())
            cells = [[self._diagnosis.expression(each, none) for each in row] for row in rows]
            return self._diagnosis.unified(cells, [nowhere] * len(types))

        return Table.of(self._diagnosis.made(make, examined), [nowhere] * len(types))

    def _one_row(self, _node: Json) -> Table:
        """Read the row of a query without FROM. It has a column, which is only counted."""
        return self._constants([NUMBER], [[Constant(NUMBER, 0)]])

    def _values(self, node: Json) -> Table:
        rows = [[self._expression(each) for each in row] for row in node["expressions"]]
        return self._constants(list(map(self._expressions.type_of, node["expr_types"])), rows)

    def _empty(self, node: Json) -> Table:
        return self._constants(list(map(self._expressions.type_of, node["return_types"])), ())


def _raise_follow_up() -> Rows:
    raise FollowUpError


def _place(call: AggregateCall | WindowCall) -> Place | None:
    return call.place
