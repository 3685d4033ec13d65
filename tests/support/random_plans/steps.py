"""The steps by which random plans grow: each applies one operator, or a few, to collections of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from support.random_plans.choices import Choices
from support.random_plans.columns import apart, keys_between, shaped, unused
from support.random_plans.expressions import condition, fits, number, text
from support.written_plans.thresholds import above, below

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import MomentExpr, RatioExpr, SumExpr, bind, col, count
from deltamark.dataflow.language.picks import PickExpr, first, last, median, quantile_cont, quantile_disc, string_agg
from deltamark.dataflow.language.windows import (
    FrameExpr,
    WindowExpr,
    dense_rank,
    groups_between,
    lag,
    moving_count,
    moving_largest,
    moving_smallest,
    moving_sum,
    nth_value,
    ntile,
    rank,
    row_number,
    rows_between,
    running_count,
    running_largest,
    running_smallest,
    running_sum,
    values_between,
)
from deltamark.dataflow.operators.frames import EXCLUSIONS, Frame
from deltamark.dataflow.types import DOUBLE, Schema


@dataclass(frozen=True)
class Grown:
    """A collection, and whether its rows may have negative weights."""

    rows: Collection
    signed: bool


def linear(choices: Choices, pool: list[Grown]) -> Grown:
    """Pick the input of a linear operator: any collection, most often the newest."""
    return pool[-1 - choices.place(len(pool))] if choices.chance(60) else pool[-1]


def states(choices: Choices, pool: list[Grown]) -> Collection:
    """Pick a collection without negative weights."""
    return linear(choices, [each for each in pool if not each.signed]).rows


def where(choices: Choices, pool: list[Grown]) -> Grown:
    given = linear(choices, pool)
    return Grown(given.rows.where(condition(choices, given.rows.schema)), given.signed)


def select(choices: Choices, pool: list[Grown]) -> Grown:
    given = linear(choices, pool)
    names = choices.picks(given.rows.schema.names, most=3)
    (computed,) = unused(given.rows.schema.names, "x")
    term = choices.pick([number, number, condition, text])(choices, given.rows.schema)
    return Grown(given.rows.select(*names, **{computed: term}), given.signed)


def concat(choices: Choices, pool: list[Grown]) -> Grown:
    given, other = linear(choices, pool), linear(choices, pool)
    found = shaped(choices, other.rows, given.rows.schema)
    if found is None:
        return Grown(given.rows.concat(given.rows.where(condition(choices, given.rows.schema))), given.signed)
    return Grown(given.rows.concat(found), given.signed or other.signed)


def negate(choices: Choices, pool: list[Grown]) -> Grown:
    return Grown(linear(choices, pool).rows.negate(), signed=True)


def subtract_some(choices: Choices, pool: list[Grown]) -> Grown:
    """Subtract a part of a collection from it, so that no weight becomes negative."""
    given = linear(choices, pool)
    part = given.rows.where(condition(choices, given.rows.schema))
    return Grown(given.rows.concat(part.negate()), given.signed)


def there_and_back(choices: Choices, pool: list[Grown]) -> Grown:
    """Add a collection to another and subtract it again, in any order."""
    rows = states(choices, pool)
    other = shaped(choices, linear(choices, pool).rows, rows.schema) or rows.where(condition(choices, rows.schema))
    parts = choices.shuffled([rows, other, other.negate()])
    return Grown(parts[0].concat(*parts[1:]), signed=False)


def surplus(choices: Choices, pool: list[Grown]) -> Grown:
    """Subtract from a collection a part of it that an operator with state computes."""
    rows = states(choices, pool)
    part = choices.pick([Collection.distinct, first_two, Collection.consolidate, often])
    parts = choices.shuffled([rows, part(rows).negate()])
    return Grown(parts[0].concat(parts[1]), signed=False)


def first_two(rows: Collection) -> Collection:
    return rows.top(2, [])


def often(rows: Collection) -> Collection:
    return rows.threshold(2)


def aggregate(choices: Choices, pool: list[Grown]) -> Grown:
    rows = states(choices, pool)
    keys = choices.picks(rows.schema.names, most=choices.pick([2, 2, 4]))
    wanted = [choices.pick(["count", "sum", "average", "sum", "count", "moment"]) for _ in range(choices.pick([1, 2]))]
    names = unused(keys, *(f"n{place}" for place in range(len(wanted))))
    return Grown(
        rows.aggregate(
            keys, **{name: aggregated(choices, kind, rows.schema) for name, kind in zip(names, wanted, strict=True)}
        ),
        signed=False,
    )


def aggregated(choices: Choices, kind: str, schema: Schema) -> SumExpr | RatioExpr | MomentExpr:
    match kind:
        case "count":
            return count()
        case "moment":
            return moment(choices, schema)
        case "sum":
            doubles = [each.name for each in schema.fields if each.type == DOUBLE]
            if doubles and choices.chance(60):
                return col[choices.pick(doubles)].sum()
            return SumExpr(number(choices, schema))
    return RatioExpr(SumExpr(number(choices, schema)), count())


def moment(choices: Choices, schema: Schema) -> MomentExpr | SumExpr:
    one, other = number(choices, schema, 1), number(choices, schema, 0)
    if not all(fits(each * each, schema) for each in (one, other)):
        return count()
    doubles = [each.name for each in schema.fields if each.type == DOUBLE]
    if doubles and choices.chance(60):
        one, other = col[choices.pick(doubles)], choices.pick([col[choices.pick(doubles)], other])
    function = choices.pick(["var_samp", "var_pop", "stddev_samp", "stddev_pop", "covar_samp", "covar_pop", "corr"])
    return getattr(one, function)(*([other] if function.startswith("co") else []))


def distinct(choices: Choices, pool: list[Grown]) -> Grown:
    rows = states(choices, pool)
    return Grown(rows.distinct(*choices.picks(rows.schema.names)), signed=False)


def threshold(choices: Choices, pool: list[Grown]) -> Grown:
    return Grown(states(choices, pool).threshold(choices.pick([1, 2, 3])), signed=False)


def at_most_one(choices: Choices, pool: list[Grown]) -> Grown:
    """Check groups that have one row: the rows that are distinct in some columns, or the first row."""
    rows = states(choices, pool)
    keys = choices.picks(rows.schema.names, most=2)
    (name,) = unused(keys, "rows")
    one = choices.pick([rows.distinct(*keys), rows.aggregate(keys, **{name: count()})]) if keys else rows.top(1, [])
    return Grown(one.at_most_one(keys), signed=False)


def at_most_one_of_any(choices: Choices, pool: list[Grown]) -> Grown:
    """Check groups that may have several rows, which is an error."""
    rows = states(choices, pool)
    return Grown(rows.at_most_one(choices.picks(rows.schema.names, most=3)), signed=False)


def join(choices: Choices, pool: list[Grown]) -> Grown:
    left = states(choices, pool)
    rows, on = apart(choices, left, states(choices, pool))
    return Grown(left.join(rows, on) if on else left.cross(rows), signed=False)


def half_join(choices: Choices, pool: list[Grown]) -> Grown | None:
    """Draw a semijoin, antijoin or left join."""
    left = states(choices, pool)
    rows, on = apart(choices, left, states(choices, pool))
    if not on:
        return None
    kind = choices.pick(["semijoin", "antijoin", "left_join"])
    return Grown(getattr(left, kind)(rows, on), signed=False)


def extreme(choices: Choices, pool: list[Grown]) -> Grown | None:
    rows = states(choices, pool)
    there = [field.name for field in rows.schema.fields if not field.type.nullable and field.type.kind != "text"]
    if not there:
        return None
    by = choices.picks(rows.schema.names, most=choices.pick([2, 2, 4]))
    which = choices.pick(["largest", "smallest"])
    levels = choices.pick([(), (8, 2)])
    return Grown(getattr(rows, which)(choices.pick(there), by, levels), signed=False)


def top(choices: Choices, pool: list[Grown]) -> Grown:
    rows = states(choices, pool)
    order = choices.picks(rows.schema.names, most=2)
    signs = [choices.pick(["", "-"]) for _ in order]
    places, ordering = choices.pick([1, 2, 3, 4]), [sign + name for sign, name in zip(signs, order, strict=True)]
    return Grown(rows.top(places, ordering), signed=False)


def window(choices: Choices, pool: list[Grown]) -> Grown:
    rows = states(choices, pool)
    keys, order = choices.picks(rows.schema.names, most=2), choices.picks(rows.schema.names, most=2)
    ordering = [choices.pick(["", "-"]) + name for name in order]
    functions = [
        choices.pick([place, running, moving, picked])(choices, rows.schema, order)
        for _ in range(choices.pick([1, 2, 3]))
    ]
    first = functions[0]
    is_place = isinstance(first, WindowExpr) and first.function("w").is_place
    limit = choices.pick([None, 1, 2, 3]) if is_place else None
    names = unused(rows.schema.names, *(f"w{at}" for at in range(len(functions))))
    return Grown(rows.window(keys, ordering, limit, **dict(zip(names, functions, strict=True))), signed=False)


def place(choices: Choices, _: Schema, __: Sequence[str]) -> WindowExpr:
    return choices.pick([row_number, rank, dense_rank])()


def running(choices: Choices, schema: Schema, _: Sequence[str]) -> WindowExpr:
    function = choices.pick([running_sum, running_smallest, running_largest, running_count])
    of = summed(choices, schema, only_numbers=function is running_sum)
    if function is running_sum:
        of = choices.pick([of, *(each.name for each in schema.fields if each.type.kind == "double")])
    return (function if of else running_count)(of, with_peers=choices.pick([True, False]))


def summed(choices: Choices, schema: Schema, *, only_numbers: bool) -> str:
    """Draw a column to sum up, or to compare; an empty text if there is none."""
    numbers = [each.name for each in schema.fields if each.type.kind == "int"]
    others = [each.name for each in schema.fields if each.type.kind not in ("text", "int")]
    if only_numbers:
        numbers = [
            each for each in numbers if max(map(abs, (schema[each].low, schema[each].high))) * schema.rows < 2**63
        ]
    return choices.pick([*numbers, *([] if only_numbers else others)] or [""])


def moving(choices: Choices, schema: Schema, order: Sequence[str]) -> FrameExpr:
    function = choices.pick([moving_sum, moving_smallest, moving_largest, moving_count])
    of, within = summed(choices, schema, only_numbers=function is moving_sum), frame(choices, schema, order)
    doubles = [each.name for each in schema.fields if each.type.kind == "double"]
    if doubles and function is moving_sum and choices.chance(60):
        of = choices.pick(doubles)
    if not of or function is moving_count:
        return moving_count(within, of)
    return function(of, within)


def picked(choices: Choices, schema: Schema, order: Sequence[str]) -> FrameExpr:
    if choices.chance(15):
        return ntile(choices.pick([1, 2, 3, 10]))
    of = choices.pick(schema.names) if schema.names else ""
    if not of:
        return moving(choices, schema, order)
    if choices.chance(40):
        return lag(of, choices.pick([1, -1, 2, 0]))
    within = replace(frame(choices, schema, order), without="nothing")
    return nth_value(of, choices.pick([1, -1, 2]), within, known=choices.pick([False, True]))


def frame(choices: Choices, schema: Schema, order: Sequence[str]) -> Frame:
    ends = [choices.pick([None, 0, -1, 1, -2, 3]) for _ in range(2)]
    without = choices.pick([*EXCLUSIONS[:1] * 4, *EXCLUSIONS])
    last = schema[order[-1]] if order else None
    if choices.chance(50):
        return choices.pick([rows_between, rows_between, groups_between])(*ends, without=without)
    if last is None or last.kind not in ("int", "date") or max(abs(last.low), abs(last.high)) > 2**60:
        ends = [0 if each else each for each in ends]
    return values_between(*ends, without=without)


def pick(choices: Choices, pool: list[Grown]) -> Grown:
    rows = states(choices, pool)
    keys, order = choices.picks(rows.schema.names, most=2), choices.picks(rows.schema.names, most=2)
    ordering = [choices.pick(["", "-"]) + name for name in order]
    names = unused(rows.schema.names, *(f"v{at}" for at in range(choices.pick([1, 1, 2, 3]))))
    return Grown(rows.pick(keys, ordering, **{name: place_of(choices, rows.schema) for name in names}), signed=False)


def place_of(choices: Choices, schema: Schema) -> PickExpr:
    of = choices.pick(schema.fields)
    share, whole = choices.pick([Decimal(0), Decimal("0.3"), Decimal("0.5"), Decimal("0.75"), Decimal(1)]), of.type
    exact = whole.kind == "int" and not whole.nullable and max(-whole.low, whole.high) < 2**58
    if whole.kind == "text" and choices.chance(50):
        return string_agg(of.name, choices.pick([",", "", " und länger "]))
    if exact and choices.chance(50):
        return choices.pick([median(of.name), quantile_cont(of.name, share)])
    return choices.pick([first(of.name), last(of.name), quantile_disc(of.name, share)])


def compare(choices: Choices, pool: list[Grown]) -> Grown | None:
    """Keep the rows that compare with a sum or an average of their key."""
    rows = states(choices, pool)
    others = choices.pick([rows, states(choices, pool)])
    value, limit = number(choices, rows.schema, 1), SumExpr(number(choices, others.schema, 1))
    on = keys_between(choices, rows.schema, others.schema)
    name = unused(rows.schema.names, "limit")[0]
    limits = others.aggregate(tuple(on.values()), **{name: choices.pick([limit, RatioExpr(limit, count())])})
    pairs = rows.join(limits, on) if on else rows.cross(limits)
    low, high = choices.pick([(value + Decimal(0), col[name]), (col[name], value + Decimal(0))])
    comparison = choices.pick([low < high, low <= high])
    if not fits(comparison, pairs.schema):
        return None
    return Grown(pairs.where(comparison).select(*rows.schema.names), signed=False)


def bound_by_any(choices: Choices, pool: list[Grown]) -> Grown | None:
    """Compare with limits that may be several for a key, which is an error."""
    rows, others = states(choices, pool), states(choices, pool)
    value, limit = number(choices, rows.schema, 0), number(choices, others.schema, 0)
    if bind(value, rows.schema).type.scale != bind(limit, others.schema).type.scale:
        return None
    on = keys_between(choices, rows.schema, others.schema)
    (name,) = unused(others.schema.names, "limit")
    limits = others.select(*on.values(), **{name: limit})
    return Grown(choices.pick([above, below])(rows, limits, value, name, on=on), signed=False)


def sample(choices: Choices, pool: list[Grown]) -> Grown:
    given = linear(choices, pool)
    fraction, names = choices.pick([0.25, 0.5, 1]), choices.picks(given.rows.schema.names, most=2)
    return Grown(given.rows.sample(fraction, names), given.signed)


def or_null(choices: Choices, pool: list[Grown]) -> Grown:
    return Grown(states(choices, pool).or_null(), signed=False)


def consolidate(choices: Choices, pool: list[Grown]) -> Grown:
    given = linear(choices, pool)
    return Grown(given.rows.consolidate(), given.signed)


STEPS = [
    join, compare, aggregate, half_join, extreme, top, distinct, threshold, concat, subtract_some, where, select,
    or_null, negate, consolidate, there_and_back, surplus, join, compare, aggregate, sample, window,
    at_most_one, pick,
]  # fmt: skip
WILD_STEPS = [*STEPS, bound_by_any, at_most_one_of_any]
