"""Joins that only look for partners: semijoins, antijoins and marks.

A left row has a partner if its values in the conditions are among those of the pairs. So a semijoin is a join with
these values, each once, and an antijoin is the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.node import is_unique
from deltamark.dataflow.plan.terms import Ratio, column
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.evaluator import condition
from deltamark.dataflow.scalars.expressions import Expression, NotFalse
from deltamark.dataflow.scalars.values import TRUE, Cell, Truth, Value, value_of
from deltamark.dataflow.sql.rows.joins import Conditions, Equality, cell_of_pair, compared, keyed, paired, split
from deltamark.dataflow.sql.rows.rows import Rows, fresh, projected, without_null
from deltamark.dataflow.sql.rows.unions import union
from deltamark.dataflow.types import Field, Type


def matching(left: Rows, right: Rows, conditions: Sequence[Expression[int]]) -> tuple[Rows, Rows]:
    """Return the left rows, with additional columns if the conditions need some, and those that have a partner."""
    parts = split(left, right, conditions)
    right = right.where(*map(right.truth, parts.right))
    if parts.other:
        return _matching_values(left, right, parts)
    left, left_keys = left.as_columns([each.left for each in parts.equal], "key")
    candidates = _restricted(left, parts)
    if not parts.equal:
        return left, _while_any(candidates, right)
    right = without_null(right, [each.right for each in parts.equal if not each.knows_null])
    right, right_keys = right.as_columns([compared(each.right, each) for each in parts.equal], "key")
    return left, _semijoin(candidates, right, left_keys, right_keys)


def without_match(left: Rows, right: Rows, conditions: Sequence[Expression[int]], *, knows_null: bool) -> Rows:
    """Return the left rows without a partner. knows_null: nor one for which a condition is NULL (NOT IN)."""
    others = rest(*matching(left, right, conditions))
    if not knows_null or not any(_is_unsure(left, right, each) for each in conditions):
        return others
    return union(_sorted_by_null(others, right, conditions)[1])


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
    return not condition(of, lambda key: cell_of_pair(left, right, key)).total


def _sorted_by_null(left: Rows, right: Rows, conditions: Sequence[Expression[int]]) -> tuple[list[Rows], list[Rows]]:
    """Part rows without a partner into those for which a comparison is NULL, and the others."""
    unsure = [each for each in conditions if _is_unsure(left, right, each)]
    sure = [each for each in conditions if each not in unsure]
    equal = split(left, right, unsure).equal
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


def _restricted(left: Rows, parts: Conditions) -> Rows:
    """Keep the left rows that may have a partner; the values stay those of all left rows."""
    candidates = left.where(*map(left.truth, parts.left))
    known = without_null(candidates, [each.left for each in parts.equal if not each.knows_null])
    return Rows(known.collection, left.cells)


def _semijoin(left: Rows, right: Rows, left_keys: Sequence[str], right_keys: Sequence[str]) -> Rows:
    """Keep the left rows whose keys occur on the right, where NULL equals NULL."""
    columns = {f"key_{at}": column(name, right.types[name]) for at, name in enumerate(right_keys)}
    seen = projected(right.collection, columns)
    if not is_unique(seen.node, list(columns)):
        seen = seen.distinct()
    return Rows(_only(keyed(left, Rows(seen, ()), left_keys, list(columns)).collection, left), left.cells)


def _while_any(left: Rows, right: Rows) -> Rows:
    """Keep all left rows if there is a right row, otherwise none."""
    counted = right.collection.count().rename(**{fresh("rows", left.types): "count"})
    return Rows(_only(left.collection.cross(counted), left), left.cells)


def _only(rows: Collection, like: Rows) -> Collection:
    """Keep the columns of other rows."""
    return rows if rows.schema.names == tuple(like.types) else rows.select(*like.types)


def _matching_values(left: Rows, right: Rows, parts: Conditions) -> tuple[Rows, Rows]:
    """Find the left rows with a partner by the combinations of values that the conditions read, each once."""
    wide, count = len(left.cells), len(parts.equal)
    read = sorted({key for each in parts.other for key in each.columns() if key < wide})
    wanted: list[Cell] = [*(each.left for each in parts.equal), *(left.cells[key] for key in read)]
    left, names = _with_values(left, wanted)
    distinct = list(dict.fromkeys(name for each in names for name in each))
    candidates = _restricted(left, parts)
    seen = candidates.collection.distinct(*distinct)
    types = {field.name: field.type for field in seen.schema.fields}
    cells = [_stored(each, cell, types) for each, cell in zip(names, wanted, strict=True)]
    keys = zip(cells[:count], parts.equal, strict=True)
    equal = [Equality(value_of(cell), each.right, each.knows_null) for cell, each in keys]
    joined = paired(Rows(seen, tuple(cells)), right, equal)
    at: dict[int, Cell] = dict(zip(read, joined.cells[count:], strict=False))
    at |= {wide + number: cell for number, cell in enumerate(joined.cells[len(cells) :])}
    matched = joined.where(*(condition(each, at.__getitem__) for each in parts.other))
    found = keyed(candidates, Rows(matched.collection.distinct(*distinct), ()), distinct, distinct)
    return left, Rows(_only(found.collection, left), left.cells)


def _with_values(rows: Rows, wanted: Sequence[Cell]) -> tuple[Rows, list[list[str]]]:
    """Add columns for values, and return their names; a quotient has two."""
    names = []
    for cell in wanted:
        value = value_of(cell)
        parts: list[Cell] = [value]
        if isinstance(value.term, Ratio):
            parts = [Value(each, value.null) for each in (value.term.numerator, value.term.denominator)]
        rows, columns = rows.as_columns(parts, "value")
        names.append(columns)
    return rows, names


def _stored(names: Sequence[str], cell: Cell, types: Mapping[str, Type]) -> Cell:
    """Return the value that columns store. cell: the value before, which tells its kind."""
    if len(names) == 1:
        return values.cell_of(names[0], cell, types)
    above, below = (Field(name, types[name]) for name in names)
    return values.stored_ratio(above, below)
