"""Lowering: the operations of a plan of SQL become collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.node import is_unique
from deltamark.dataflow.plan.terms import number
from deltamark.dataflow.scalars.comparisons import first_known
from deltamark.dataflow.scalars.problems import FollowUpError
from deltamark.dataflow.scalars.values import Cell, Truth, Value, cell_of, constant
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.join_tree import JoinTree, taken_apart
from deltamark.dataflow.sql.algebra.operations import ALL_ROWS, AggregateCall, Order, Relational
from deltamark.dataflow.sql.algebra.reused_groups import with_reused_groups
from deltamark.dataflow.sql.algebra.rewrites import with_columns_for_groups, with_extremes, without_reductions
from deltamark.dataflow.sql.diagnosis import Diagnosis
from deltamark.dataflow.sql.problems import SqlError, unsupported
from deltamark.dataflow.sql.rows.existence import marked, rest
from deltamark.dataflow.sql.rows.groups import aggregated, extreme
from deltamark.dataflow.sql.rows.join_graph import JoinGraph
from deltamark.dataflow.sql.rows.join_order import joined
from deltamark.dataflow.sql.rows.left_join_sums import aggregated_without_join
from deltamark.dataflow.sql.rows.outer import outer, refuse_several_partners
from deltamark.dataflow.sql.rows.rows import Rows, scanned, stored_term
from deltamark.dataflow.sql.rows.unions import aligned, union
from deltamark.errors import DeltamarkError

MAX_ROWS = 2**31 - 1
"""The largest k of the first k rows."""

MAX_UNREAD_COLUMNS = 64
"""The columns that rows may have, read or not, if several operations read the rows. After n joins of rows with
themselves there would be 2^n columns. No query of a benchmark has as many; not measured."""


class Lowering:
    """Makes rows of the operations of one plan, each once."""

    def __init__(self, relations: Mapping[str, Collection]) -> None:
        self._relations = relations
        self._made: dict[Relational, Rows] = {}
        self._diagnosis = Diagnosis(self.rows)

    @property
    def problems(self) -> Sequence[SqlError]:
        """The problems of the operations that were made. If there are any, no rows are of use."""
        return self._diagnosis.problems

    def rows(self, rel: Relational) -> Rows:
        """Return the rows of an operation."""
        if rel not in self._made:
            try:
                made = self._make(rel)
            except FollowUpError:
                made = self._diagnosis.stand_in(rel, None)
            except DeltamarkError as error:
                made = self._diagnosis.stand_in(rel, error)
            self._made[rel] = made
        return self._made[rel]

    def _make(self, rel: Relational) -> Rows:
        match rel:
            case algebra.Filter() | algebra.Project() | algebra.Join(kind="INNER" | "SEMI" | "ANTI"):
                rows = self._joined(rel)
            case algebra.Join():
                rows = self._other_join(rel)
            case algebra.Aggregate():
                rows = self._aggregated(with_columns_for_groups(rel))
            case algebra.Extreme():
                rows = extreme(self.rows(rel.rows), rel.keys, rel.column, rel.which)
            case algebra.Scan():
                rows = scanned(self._relations[rel.relation], rel.columns)
            case algebra.Distinct():
                rows = _distinct(self.rows(rel.rows))
            case algebra.SetOperation():
                rows = self._set(rel)
            case algebra.Limit():
                rows = _limited(self.rows(rel.rows), rel)
            case algebra.Constants():
                rows = self._constants(rel)
            case algebra.Refused():
                raise rel.error
            case algebra.Shared():
                rows = _without_unread_columns(self.rows(rel.rows))
        return rows

    def _joined(self, rel: Relational) -> Rows:
        """Join the elements of the joins, filters and projections at the top of a plan."""
        return self._joined_tree(taken_apart(rel))

    def _joined_tree(self, tree: JoinTree) -> Rows:
        tree = without_reductions(with_extremes(tree))
        rows = [self.rows(each.rel) for each in tree.elements]
        graph = JoinGraph(rows, [each.existence for each in tree.elements], tree.conditions)
        columns = [graph.computed_early(each) for each in tree.columns]
        result, place = joined(graph)
        return result.project(each.with_columns(place) for each in columns)

    def _aggregated(self, rel: algebra.Aggregate) -> Rows:
        if _is_first_of_one(rel):
            return _only_row(self.rows(rel.rows), rel.calls)
        for tree in with_reused_groups(rel):
            rows = self._joined_tree(tree)
            if _are_single(rows, len(rel.groups)):
                return rows
        summed = aggregated_without_join(rel, self.rows)
        return summed or aggregated(self.rows(rel.rows), rel.groups, rel.calls)

    def _other_join(self, rel: algebra.Join) -> Rows:
        left, right = self.rows(rel.left), self.rows(rel.right)
        if rel.kind == "MARK":
            return marked(left, right, rel.conditions)
        refuse_several_partners(rel, right)
        keeps_left, keeps_right = rel.kind != "RIGHT", rel.kind in ("RIGHT", "FULL")
        return outer(left, right, rel.conditions, keeps_left=keeps_left, keeps_right=keeps_right)

    def _set(self, rel: algebra.SetOperation) -> Rows:
        parts = [self.rows(each) for each in rel.parts]
        if rel.kind == "UNION":
            return union(parts)
        one, other = (_distinct(each) for each in aligned(parts))
        shared = Rows(one.collection.concat(other.collection).threshold(2), one.cells)
        return shared if rel.kind == "INTERSECT" else rest(one, shared)

    def _constants(self, rel: algebra.Constants) -> Rows:
        nothing = Rows(next(iter(self._relations.values())), ()).where(Truth.of(None))
        if not rel.rows:
            return nothing.with_cells(constant(each, None) for each in rel.types)
        one = Rows(nothing.collection.or_null(), ())
        rows = [one.project(each) for each in rel.rows]
        return union(rows) if len(rows) > 1 else rows[0]


def _without_unread_columns(rows: Rows) -> Rows:
    """Store the values of rows that are read several times, if they have many more columns: joins would double them."""
    if len(rows.types) <= max(MAX_UNREAD_COLUMNS, 2 * len(rows.cells)):
        return rows
    return rows.stored([f"c{at}" for at in range(len(rows.cells))])


def _is_first_of_one(rel: algebra.Aggregate) -> bool:
    """Return whether an aggregate takes values of the one row that there may be, and perhaps counts it."""
    functions = {each.function for each in rel.calls if each.condition is None}
    return (
        not rel.groups and "first" in functions <= {"first", "count_star"} and algebra.is_unique(rel.rows, frozenset())
    )


def _are_single(rows: Rows, groups: int) -> bool:
    """Return whether each group by the first columns has one row."""
    rows, names = rows.as_columns(rows.cells[:groups], "key")
    return is_unique(rows.collection.node, names)


def _only_row(rows: Rows, calls: Sequence[AggregateCall]) -> Rows:
    """Return values of the only row, or NULL if there is none, and how many rows there are."""
    names = [f"c{at}" for at in range(len(calls))]
    stored = rows.with_cells(rows.cell(each.args[0]) if each.args else Value(number(1)) for each in calls).stored(names)
    found = Rows(stored.collection.or_null(), ())
    cells = [cell_of(name, cell, found.types) for name, cell in zip(names, stored.cells, strict=True)]
    counts = (
        first_known(cell, Value(number(0))) if not call.args else cell for cell, call in zip(cells, calls, strict=True)
    )
    return found.with_cells(counts)


def _distinct(rows: Rows) -> Rows:
    for each in rows.cells:
        stored_term(each)  # a quotient is an error
    stored = rows.stored([f"c{at}" for at in range(len(rows.cells))])
    if is_unique(stored.collection.node, stored.collection.schema.names):
        return stored
    return Rows(stored.collection.distinct(), stored.cells)


def _limited(rows: Rows, rel: algebra.Limit) -> Rows:
    if rel.count == 0:
        return rows.where(Truth.of(None))
    rows, order = _ordered(rows, rel.orders)
    first = rows if rel.count == ALL_ROWS else _first(rows, order, rel.count + rel.offset)
    return rest(first, _first(rows, order, rel.offset)) if rel.offset else first


def _ordered(rows: Rows, orders: Sequence[Order]) -> tuple[Rows, list[str]]:
    """Store all values, and columns to order by. A value that may be NULL has one that says whether it is."""
    keys: list[tuple[Cell, bool]] = []
    for order in orders:
        cell = rows.cell(order.expression)
        if cell.nulls is not None:
            keys.append((Truth.of(cell.nulls), order.nulls_first))
        keys.append((cell, order.descending))
    for cell, _ in keys:
        stored_term(cell)  # a quotient is an error
    count = len(rows.cells)
    order_by = [f"o{at}" for at in range(len(keys))]
    whole = rows.with_cells([*rows.cells, *(cell for cell, _ in keys)])
    stored = whole.stored([*(f"c{at}" for at in range(count)), *order_by])
    directed = [f"-{name}" if down else name for name, (_, down) in zip(order_by, keys, strict=True)]
    return stored.with_cells(stored.cells[:count]), directed


def _first(rows: Rows, order: Sequence[str], count: int) -> Rows:
    if count > MAX_ROWS:
        raise unsupported(f"LIMIT and OFFSET of {count} rows")
    return Rows(rows.collection.top(count, order), rows.cells)
