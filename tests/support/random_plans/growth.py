"""Random plans: they grow a step at a time over a pool of collections, so that parts are shared and meet themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from support.random_plans.choices import Choices
from support.random_plans.expressions import condition, fits, number
from support.random_plans.streams import (
    MANY_ROWS,
    NULLABLE_TYPES,
    ROWS,
    TYPES,
    WIDE_NULLABLE_TYPES,
    WIDE_TYPES,
    Streams,
    inputs_of,
    streams_for,
)
from support.written_plans.thresholds import above, below

from deltamark.dataflow.explain.describe import describe
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import RatioExpr, SumExpr, col, count
from deltamark.dataflow.plan.binder import bind
from deltamark.dataflow.plan.nodes import Input, Join, Node, walk
from deltamark.dataflow.types import Field, Schema, Type

WIDEST = 7
MOST_FACTORS = 3


@dataclass(frozen=True)
class Case:
    """A plan and what happens to its inputs."""

    collection: Collection
    streams: Streams

    def __repr__(self) -> str:
        streams = (f"  {name}: {list(stream)}" for name, stream in self.streams.items())
        return "\n".join(["Case", *described(self.collection), *streams])

    def _repr_pretty_(self, printer: Any, _: bool) -> None:  # noqa: FBT001
        """Say it so in hypothesis' reports too."""
        printer.text(repr(self))


def described(*collections: Collection) -> list[str]:
    """Write plans, a line a node."""
    nodes = nodes_of(*collections)
    at = {id(each): place for place, each in enumerate(nodes)}
    return [f"  {place}: {brief(each, at)}" for place, each in enumerate(nodes)]


def nodes_of(*collections: Collection) -> list[Node]:
    return list(dict.fromkeys(node for each in collections for node in walk(each.node)))


def brief(node: Node, at: Mapping[int, int]) -> str:
    columns = ", ".join(f"{field.name} {spelled_type(field.type)}" for field in node.schema.fields)
    if isinstance(node, Input):
        return f"input {node.name}: {columns}, {node.schema.rows} rows"
    return f"{node.operation} {[at[id(each)] for each in node.inputs]} {describe(node)} -> {columns}"


def spelled_type(type_: Type) -> str:
    return f"{type_} {type_.low}..{type_.high}" if type_.kind in ("int", "date") else str(type_)


def sources(choices: Choices, types: Sequence[Type], rows: int) -> list[Collection]:
    """Declare two or three inputs of one to four columns."""
    found = []
    for name in choices.pick(["rs", "rst"]):
        shape = [choices.pick(types) for _ in range(choices.pick([1, 2, 3, 4]))]
        found.append(source(name, dict(zip("abcd", shape, strict=False)), rows))
    return found


def plan(choices: Choices, *, wild: bool = False, heavy: bool = False, steps: int = 5) -> Collection:
    """Draw a plan of up to so many steps. wild: of any types, so that sums may need more than 64 bits.

    heavy: of rows with any weights, so that the weights of joins may need more than 64 bits.
    """
    return grown(choices, wild=wild, heavy=heavy, steps=steps)[-1].rows


def grown(choices: Choices, *, wild: bool, heavy: bool, steps: int) -> list[Grown]:
    """Draw inputs and plans of up to so many steps over them."""
    rows = choices.pick([ROWS, ROWS, ROWS, MANY_ROWS]) if heavy else ROWS
    types = [*TYPES, *TYPES, *NULLABLE_TYPES]
    if wild and choices.chance(50):
        wide = [*WIDE_TYPES, *WIDE_TYPES, *WIDE_NULLABLE_TYPES]
        types = choices.pick([[*types, *wide], wide])
    pool = [Grown(each, signed=False) for each in sources(choices, types, rows)]
    for _ in choices.some(steps, 85):
        made = choices.pick(WILD_STEPS if wild else STEPS)(choices, pool)
        if made is not None and degree(made.rows.node) <= MOST_FACTORS:
            names = made.rows.schema.names
            pool.append(Grown(made.rows.select(*names[:WIDEST]), made.signed) if len(names) > WIDEST else made)
    return pool


def case(choices: Choices) -> Case:
    """Draw a plan of up to five steps and streams for its inputs."""
    found = plan(choices)
    return Case(found, streams_for(choices, inputs_of(found), degree(found.node)))


def degree(root: Node) -> int:
    """Count the inputs whose rows are multiplied: crossing a collection with itself squares it."""
    found: dict[int, int] = {}
    for node in walk(root):
        below = [found[id(each)] for each in node.inputs]
        found[id(node)] = sum(below) if isinstance(node, Join) else max(below, default=1)
    return found[id(root)]


@dataclass(frozen=True)
class Grown:
    """A collection, and whether its rows may be there less than zero times."""

    rows: Collection
    signed: bool


def linear(choices: Choices, pool: list[Grown]) -> Grown:
    """Pick what linear operators take: anything, the newest rather than others."""
    return pool[-1 - choices.place(len(pool))] if choices.chance(60) else pool[-1]


def states(choices: Choices, pool: list[Grown]) -> Collection:
    """Pick what may be looked at."""
    return linear(choices, [each for each in pool if not each.signed]).rows


def where(choices: Choices, pool: list[Grown]) -> Grown:
    given = linear(choices, pool)
    return Grown(given.rows.where(condition(choices, given.rows.schema)), given.signed)


def select(choices: Choices, pool: list[Grown]) -> Grown:
    given = linear(choices, pool)
    names = choices.picks(given.rows.schema.names, most=3)
    (computed,) = unused(given.rows.schema.names, "x")
    return Grown(given.rows.select(*names, **{computed: number(choices, given.rows.schema)}), given.signed)


def concat(choices: Choices, pool: list[Grown]) -> Grown:
    given, other = linear(choices, pool), linear(choices, pool)
    found = shaped(choices, other.rows, given.rows.schema)
    if found is None:
        return Grown(given.rows.concat(given.rows.where(condition(choices, given.rows.schema))), given.signed)
    return Grown(given.rows.concat(found), given.signed or other.signed)


def negate(choices: Choices, pool: list[Grown]) -> Grown:
    return Grown(linear(choices, pool).rows.negate(), signed=True)


def subtract_some(choices: Choices, pool: list[Grown]) -> Grown:
    """Subtract a part of a collection from it, which leaves a state where there was one."""
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
    """Subtract from a collection something that it contains and that looks at its states."""
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
    wanted = [choices.pick(["count", "sum", "average"]) for _ in range(choices.pick([1, 2]))]
    names = unused(keys, *(f"n{place}" for place in range(len(wanted))))
    return Grown(
        rows.aggregate(
            keys, **{name: aggregated(choices, kind, rows.schema) for name, kind in zip(names, wanted, strict=True)}
        ),
        signed=False,
    )


def aggregated(choices: Choices, kind: str, schema: Schema) -> SumExpr | RatioExpr:
    match kind:
        case "count":
            return count()
        case "sum":
            return SumExpr(number(choices, schema))
    return RatioExpr(SumExpr(number(choices, schema)), count())


def distinct(choices: Choices, pool: list[Grown]) -> Grown:
    rows = states(choices, pool)
    return Grown(rows.distinct(*choices.picks(rows.schema.names)), signed=False)


def threshold(choices: Choices, pool: list[Grown]) -> Grown:
    return Grown(states(choices, pool).threshold(choices.pick([1, 2, 3])), signed=False)


def join(choices: Choices, pool: list[Grown]) -> Grown:
    left = states(choices, pool)
    rows, on = apart(choices, left, states(choices, pool))
    return Grown(left.join(rows, on) if on else left.cross(rows), signed=False)


def half_join(choices: Choices, pool: list[Grown]) -> Grown | None:
    """Make a semijoin, antijoin or left join."""
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


def compare(choices: Choices, pool: list[Grown]) -> Grown | None:
    """Compare with a sum or an average per key."""
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
    """Compare with rows of which there may be several per key, which is an error."""
    rows, others = states(choices, pool), states(choices, pool)
    value, limit = number(choices, rows.schema, 0), number(choices, others.schema, 0)
    if bind(value, rows.schema).type.scale != bind(limit, others.schema).type.scale:
        return None
    on = keys_between(choices, rows.schema, others.schema)
    (name,) = unused(others.schema.names, "limit")
    limits = others.select(*on.values(), **{name: limit})
    return Grown(choices.pick([above, below])(rows, limits, value, name, on=on), signed=False)


def or_null(choices: Choices, pool: list[Grown]) -> Grown:
    return Grown(states(choices, pool).or_null(), signed=False)


def consolidate(choices: Choices, pool: list[Grown]) -> Grown:
    given = linear(choices, pool)
    return Grown(given.rows.consolidate(), given.signed)


STEPS = [
    join, compare, aggregate, half_join, extreme, top, distinct, threshold, concat, subtract_some, where, select,
    or_null, negate, consolidate, there_and_back, surplus, join, compare, aggregate,
]  # fmt: skip
WILD_STEPS = [*STEPS, bound_by_any]


def unused(taken: Iterable[str], *wanted: str) -> list[str]:
    """Lengthen names until nobody has them, nor the columns that an average makes of them."""
    names = {part for name in taken for part in (name, name.split(".")[0])}
    found = []
    for name in wanted:
        while name in names:
            name += "_"  # noqa: PLW2901
        names.add(name)
        found.append(name)
    return found


def alike(mine: Type, theirs: Type) -> bool:
    return (mine.comparable, mine.scale) == (theirs.comparable, theirs.scale)


def shaped(choices: Choices, rows: Collection, schema: Schema) -> Collection | None:
    """Give a collection the columns of a schema, from those of its own that are alike."""
    found = {}
    for field in schema.fields:
        fitting = [each.name for each in rows.schema.fields if alike(each.type, field.type)]
        if not fitting:
            return None
        found[field.name] = col[choices.pick(fitting)]
    return rows.select(**found)


def keys_between(choices: Choices, left: Schema, right: Schema) -> dict[str, str]:
    """Pair up to four columns that may be joined, {left: right}; missing values are no keys."""
    pairs = [(mine.name, theirs.name) for mine in left.fields for theirs in right.fields if joinable(mine, theirs)]
    found: dict[str, str] = {}
    for _ in range(choices.pick([1, 1, 2, 0, 3, 4])):
        free = [(mine, theirs) for mine, theirs in pairs if mine not in found and theirs not in found.values()]
        found |= [choices.pick(free)] if free else []
    return found


def joinable(mine: Field, theirs: Field) -> bool:
    return alike(mine.type, theirs.type) and not mine.type.nullable and not theirs.type.nullable


def apart(choices: Choices, left: Collection, right: Collection) -> tuple[Collection, dict[str, str]]:
    """Rename what is on both sides, and pair keys."""
    both = [name for name in right.schema.names if name in left.schema]
    new_names = dict(zip(both, unused([*left.schema.names, *right.schema.names], *both), strict=True))
    renamed = right.rename(**{new: old for old, new in new_names.items()}) if both else right
    return renamed, keys_between(choices, left.schema, renamed.schema)
