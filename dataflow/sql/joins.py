"""Joins and unions of rows, with SQL's rules for NULL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from deltamark.dataflow.language.by_terms import fresh, paired, renamed_apart, selected, sides
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.windows import row_number
from deltamark.dataflow.operators.derived import LeftJoin, Partners, TermPair
from deltamark.dataflow.operators.node import is_unique
from deltamark.dataflow.passes import expansion
from deltamark.dataflow.plan import terms as plan
from deltamark.dataflow.plan.terms import Coalesce, Ratio, Term, conjuncts
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.evaluator import condition
from deltamark.dataflow.scalars.expressions import Column, Comparator, Comparison, Expression, NotFalse
from deltamark.dataflow.scalars.values import (
    TRUE,
    Cell,
    Truth,
    Value,
    negated,
    nullable_term,
    rewritten,
    surely,
    unified_values,
    value_of,
)
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.rows import Rows, without_null
from deltamark.dataflow.types import Schema

EQUALITIES = (Comparator.EQUAL, Comparator.NOT_DISTINCT)


class Equality(NamedTuple):
    """A value of a left row and one of a right row that must be equal. knows_null: NULL equals NULL."""

    left: Value
    right: Value
    knows_null: bool


@dataclass(frozen=True)
class Sides:
    """Two sides of a join, whose columns have different names, and its conditions as terms.

    equal: values of both sides, where NULL equals NULL.
    """

    left: Rows
    right: Rows
    equal: tuple[TermPair, ...]
    conditions: tuple[Term, ...]

    @classmethod
    def of(cls, left: Rows, right: Rows, given: Iterable[Expression[int]]) -> Sides:
        """Compute conditions, whose columns are those of the left side, then those of the right one."""
        right = apart(left, right)
        equal: list[TermPair] = []
        known: list[Term] = []
        others: list[Expression[int]] = []
        for each in given:
            equality = equality_of(left, right, each)
            if equality is None:
                others.append(each)
            else:
                values_ = (equality.left, equality.right)
                if not equality.knows_null:
                    known += [negated(value.null) for value in values_ if value.null is not None]
                    values_ = (Value(equality.left.term), Value(equality.right.term))
                equal.append((_stored(values_[0]), _stored(values_[1])))
        cells = [*left.cells, *right.cells]
        parts = [*known, *(surely(condition(each, cells.__getitem__).true) for each in others)]
        conditions = dict.fromkeys(part for each in parts for part in conjuncts(each) if part is not TRUE)
        return cls(left, right, tuple(equal), tuple(conditions))


def _stored(value: Value) -> Term:
    assert not isinstance(value.term, Ratio)
    return nullable_term(value.term, value.null)


def apart(left: Rows, right: Rows) -> Rows:
    """Rename the columns of right rows that left ones have, too."""
    node, columns = renamed_apart(right.collection.node, left.types.keys())
    by: dict[Term, Term] = {old: columns[old.name] for old in right.columns if old.name in left.types}
    return Rows(Collection(node), tuple(rewritten(each, by) for each in right.cells)) if by else right


def equality_of(left: Rows, right: Rows, of: Expression[int]) -> Equality | None:
    """Return an equality of a left and a right value; None if the condition is no such equality."""
    wide = len(left.cells)
    if not isinstance(of, Comparison) or of.comparator not in EQUALITIES:
        return None
    sides = [{key >= wide for key in each.columns()} for each in (of.left, of.right)]
    if sides not in ([{False}, {True}], [{True}, {False}]):
        return None
    mine, theirs = (of.left, of.right) if sides[0] == {False} else (of.right, of.left)
    theirs = theirs.with_columns(lambda key: Column(key - wide))
    pair = unified_values([value_of(left.cell(mine)), value_of(right.cell(theirs))])
    if pair is None or any(isinstance(each.term, Ratio) for each in pair):
        return None
    return Equality(pair[0], pair[1], of.comparator is Comparator.NOT_DISTINCT)


def pairs(left: Rows, right: Rows, conditions: Iterable[Expression[int]]) -> Rows:
    """Return the pairs of rows that satisfy all conditions."""
    of = Sides.of(left, right, conditions)
    nodes = of.left.collection.node, of.right.collection.node
    of_left, of_right, others = sides(*nodes, of.conditions)
    node, places = paired(selected(nodes[0], *of_left), selected(nodes[1], *of_right), of.equal, others)
    return Rows(Collection(node), (*of.left.cells, *(rewritten(each, places) for each in of.right.cells)))


def partnered(left: Rows, right: Rows, conditions: Sequence[Expression[int]], *, are_kept: bool) -> Rows:
    """Return the left rows that have a partner, or those that have none."""
    of = Sides.of(left, right, conditions)
    rows = left.collection.node
    node = Partners(rows, of.right.collection.node, of.equal, of.conditions, are_kept, schema=rows.schema)
    return Rows(Collection(node), left.cells)


def without_match(left: Rows, right: Rows, conditions: Sequence[Expression[int]], *, knows_null: bool) -> Rows:
    """Return the left rows without a partner. knows_null: nor one for which a condition is NULL (NOT IN)."""
    if not knows_null or not any(_is_unsure(left, right, each) for each in conditions):
        return partnered(left, right, conditions, are_kept=False)
    return union(_sorted_by_null(rest(*matching(left, right, conditions)), right, conditions)[1])


def matching(left: Rows, right: Rows, conditions: Sequence[Expression[int]]) -> tuple[Rows, Rows]:
    """Return the left rows, with additional columns if the conditions need some, and those that have a partner."""
    of = Sides.of(left, right, conditions)
    whole, found = expansion.with_partner(left.collection.node, of.right.collection.node, of.equal, of.conditions)
    return Rows(Collection(whole), left.cells), Rows(Collection(found), left.cells)


def marked(left: Rows, right: Rows, conditions: Sequence[Expression[int]]) -> Rows:
    """Add whether a row has a partner: it is NULL if no comparison is true, and one is NULL."""
    whole, found = matching(left, right, conditions)
    unknown: list[Rows] = []
    others = [rest(whole, found)]
    if any(_is_unsure(left, right, each) for each in conditions):
        unknown, others = _sorted_by_null(others[0], right, conditions)
    null = Truth(None, None, total=False)
    return union([
        _with_mark(found, Truth.of(TRUE)), *(_with_mark(each, null) for each in unknown),
        *(_with_mark(each, Truth.of(None)) for each in others),
    ])  # fmt: skip


def rest(left: Rows, found: Rows) -> Rows:
    """Return the left rows that are not among those found."""
    return left.concat(found.negate())


def _with_mark(rows: Rows, mark: Truth) -> Rows:
    return rows.with_cells((*rows.cells, mark))


def _is_unsure(left: Rows, right: Rows, of: Expression[int]) -> bool:
    """Return whether a condition may be NULL."""
    cells = [*left.cells, *right.cells]
    return not condition(of, cells.__getitem__).total


def _sorted_by_null(left: Rows, right: Rows, conditions: Sequence[Expression[int]]) -> tuple[list[Rows], list[Rows]]:
    """Part rows without a partner into those for which a comparison is NULL, and the others."""
    unsure = [each for each in conditions if _is_unsure(left, right, each)]
    sure = [each for each in conditions if each not in unsure]
    equal = list(filter(None, (equality_of(left, right, each) for each in unsure)))
    if len(unsure) == len(equal) == 1:
        x, y = equal[0].left, equal[0].right
        pieces = [(left.where(Truth.of(x.null)), right)] if x.null is not None else []
        if y.null is not None:
            pieces.append((without_null(left, [x]), right.where(Truth.of(y.null))))
        else:
            return _sorted(pieces, sure, [without_null(left, [x])])
        return _sorted(pieces, sure, [])
    weak = [NotFalse(each, each.place) for each in unsure]
    return _sorted([(left, right)], [*sure, *weak], [])


def _sorted(
    pieces: Sequence[tuple[Rows, Rows]], conditions: Sequence[Expression[int]], others: list[Rows]
) -> tuple[list[Rows], list[Rows]]:
    """Part the left rows of some pieces into those with a partner and the others."""
    found = [matching(left, right, conditions) for left, right in pieces]
    return [each for _, each in found], [*others, *(rest(*each) for each in found)]


def left_joined(left: Rows, right: Rows, conditions: Sequence[Expression[int]]) -> Rows:
    """Return the pairs, and the left rows without a partner, with NULL in the right columns."""
    right = apart(left, right)
    names: list[str] = []
    for cell in right.cells:
        names.append(fresh(_name_of(cell), [*left.types, *names]))
    right = right.stored(names)
    of = Sides.of(left, right, conditions)
    sides = left.collection.node, right.collection.node
    fields = [replace(field, type=field.type.or_null()) for field in right.collection.schema.fields]
    pairs_ = paired(*sides, of.equal, of.conditions)[0].schema.rows
    schema = Schema((*left.collection.schema.fields, *fields), pairs_ + left.collection.schema.rows)
    joined = Collection(LeftJoin(*sides, of.equal, of.conditions, schema=schema))
    types = {field.name: field.type for field in joined.schema.fields}
    stored = zip(names, right.cells, strict=True)
    return Rows(joined, (*left.cells, *(values.cell_of(name, cell, types) for name, cell in stored)))


def _name_of(cell: Cell) -> str:
    """Return the column that a value is; otherwise a name for a column that stores it."""
    term = value_of(cell).term
    if isinstance(term, Coalesce):
        term = term.value
    return term.name if isinstance(term, plan.Column) else "value"


def outer(left: Rows, right: Rows, conditions: Sequence[Expression[int]], *, keeps_left: bool) -> Rows:
    """Return the pairs, and the rows without a partner of the right side, and perhaps of the left one."""
    joined = pairs(left, right, conditions)
    wide, parts = len(left.cells), [joined]
    if keeps_left:
        single = rest(*matching(left, right, conditions))
        parts.append(single.with_cells([*single.cells, *map(null_like, joined.cells[wide:])]))
    single = rest(*matching(right, left, [_swapped(each, wide, len(right.cells)) for each in conditions]))
    parts.append(single.with_cells([*map(null_like, joined.cells[:wide]), *single.cells]))
    return union(parts)


def _swapped(of: Expression[int], left: int, right: int) -> Expression[int]:
    """Number the columns of a pair as if its sides were swapped. left, right: the numbers of their columns."""
    return of.with_columns(lambda key: Column(key + right if key < left else key - left))


def single_joined(left: Rows, right: Rows, conditions: Sequence[Expression[int]]) -> Rows:
    """Left-join the rows of a scalar subquery. Several partners of a left row are an error of the feed."""
    return left_joined(left, _single_partners(left, right, conditions), conditions)


def _single_partners(left: Rows, right: Rows, conditions: Sequence[Expression[int]]) -> Rows:
    """Return the right rows that have a left partner, of which no two may have equal values in the conditions."""
    equal = [equality_of(left, right, each) for each in conditions]
    rows, names = right.as_columns([each.right for each in equal if each is not None], "key")
    if is_unique(rows.collection.node, names):
        return right
    if None in equal:
        raise unsupported("a scalar subquery that is correlated by a quotient")
    swapped = [_swapped(each, len(left.cells), len(right.cells)) for each in conditions]
    found = partnered(rows, left, swapped, are_kept=True)
    return Rows(found.collection.at_most_one(names), right.cells)


def copies(rows: Rows) -> Rows:
    """Number the copies of each row, so that no two rows are equal."""
    rows = rows.with_cells(map(values.in_one_column, rows.cells)).stored([f"c{at}" for at in range(len(rows.cells))])
    names = rows.collection.schema.names
    return Rows(rows.collection.window(names, (), None, **{fresh("copy", names): row_number()}), rows.cells)


def aligned(parts: Sequence[Rows]) -> list[Rows]:
    """Store the columns of several rows under the same names, with the same kinds and scales."""
    names = [f"c{at}" for at in range(len(parts[0].cells))]
    columns = [unified_column([each.cells[at] for each in parts]) for at in range(len(names))]
    return [part.with_cells(each[at] for each in columns).stored(names) for at, part in enumerate(parts)]


def union(parts: Sequence[Rows]) -> Rows:
    """Add up rows whose columns have the same kinds."""
    same = aligned(parts)
    return restored(same[0].concat(*same[1:]))


def restored(rows: Rows) -> Rows:
    """Return the values that aligned rows have stored, with the bounds of the columns that they are in now."""
    return rows.with_cells(values.cell_of(f"c{at}", cell, rows.types) for at, cell in enumerate(rows.cells))


def unified_column(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Give values the same kind."""
    same = unified_values([value_of(each) for each in cells])
    if same is None:
        raise unsupported("columns of different kinds in a union")
    return same


def null_like(cell: Cell) -> Cell:
    """Return a NULL of the kind of a value."""
    term = value_of(cell).term
    if isinstance(term, Ratio):
        return Value(Ratio(*(values.some_value(each.type) for each in (term.numerator, term.denominator))), TRUE)
    return Value(values.some_value(term.type), TRUE)
