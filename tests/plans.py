"""Random sources, change streams, plans over them and cuts into batches.

Values are few and small, so that rows meet, tie, cancel and come back. A plan grows a step at a time over a pool of
what there is, so that parts are shared and collections meet themselves. To make a strategy takes longer than to draw
from it, so they are made once: it is places that are drawn from what is only known while drawing.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from hypothesis import strategies as st
from reference import Row, Update

from dataflow.collection import Aggregate, Collection, average, count, source, total
from dataflow.expr import Expr, col, when
from dataflow.plan import Node, walk
from dataflow.term import EPOCH, bind
from dataflow.types import SHORT, TEXT, Field, Schema, Type, code_type, date_type, integer, pack_short
from deltamark import DeltamarkError

Draw = Callable[[st.SearchStrategy[Any]], Any]
Streams = Mapping[str, Sequence[Update]]

WORDS = ("ant", "bee", "cat")
SHORTS = ("", "a", "ab", "b")
TEXTS = ("", "b", "a long text", "a long text too", "a long été", "\U0001f600")
NEW_YEAR = (dt.date(1992, 1, 1) - EPOCH).days
TYPES = [
    integer(-2, 3),
    integer(0, 4),
    integer(-1, 2, scale=2),
    date_type(NEW_YEAR - 2, NEW_YEAR + 2),
    code_type(WORDS),
    SHORT,
    TEXT,
]
ROWS = 100_000
WIDEST = 7
MOST_FACTORS = 3


@dataclass(frozen=True)
class Case:
    """A plan and what happens to its inputs."""

    collection: Collection
    streams: Streams

    def __repr__(self) -> str:
        nodes = list(walk(self.collection.node))
        at = {id(each): place for place, each in enumerate(nodes)}
        lines = [f"  {place}: {brief(each, at)}" for place, each in enumerate(nodes)]
        return "\n".join(["Case", *lines, *(f"  {name}: {list(stream)}" for name, stream in self.streams.items())])

    def _repr_pretty_(self, printer: Any, _: bool) -> None:  # noqa: FBT001
        """Say it so in hypothesis' reports too."""
        printer.text(repr(self))


def brief(node: Node, at: Mapping[int, int]) -> str:
    columns = ", ".join(f"{field.name} {field.type}" for field in node.schema.fields)
    return f"{node.op} {[at[id(each)] for each in node.inputs]} {spelled(node.params)} -> {columns}"


def spelled(params: Any) -> str:
    return f"({', '.join(map(spelled, params))})" if isinstance(params, tuple) else str(params)


@cache
def places(size: int) -> st.SearchStrategy[int]:
    return st.sampled_from(range(size))


@cache
def lists_of_places(size: int, least: int, most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(places(size), min_size=least, max_size=most, unique=True)


@cache
def orders(size: int) -> st.SearchStrategy[list[int]]:
    return st.permutations(range(size))


def pick(draw: Draw, choices: Sequence[Any]) -> Any:
    return choices[draw(places(len(choices)))]


def picks(draw: Draw, choices: Sequence[Any], least: int = 0, most: int = 99) -> list[Any]:
    """Pick some, each once."""
    return [choices[at] for at in draw(lists_of_places(len(choices), least, min(most, len(choices))))]


@cache
def values(type_: Type) -> st.SearchStrategy[int | str]:
    if type_.kind == "short":
        return st.sampled_from([pack_short(text) for text in SHORTS])
    if type_.kind == "text":
        return st.sampled_from(TEXTS)
    return st.integers(type_.low, type_.high)


@cache
def rows(schema: Schema) -> st.SearchStrategy[Row]:
    return st.tuples(*(values(field.type) for field in schema.fields))


@cache
def pools(schema: Schema) -> st.SearchStrategy[list[Row]]:
    return st.lists(rows(schema), min_size=1, max_size=6)


SHAPES = st.lists(st.sampled_from(TYPES), min_size=1, max_size=4)


@st.composite
def sources(draw: Draw) -> list[Collection]:
    """Declare two or three inputs of one to four columns."""
    names = pick(draw, ["rs", "rst"])
    return [source(name, dict(zip("abcd", draw(SHAPES), strict=False)), ROWS) for name in names]


@st.composite
def changes_of(draw: Draw, schema: Schema) -> list[Update]:
    """Draw a stream whose rows are never there less than zero times at the end of a time.

    Within a time a row may go before it comes, in parts, and for nothing.
    """
    pool = [*dict.fromkeys(draw(pools(schema)))]
    live: Counter[Row] = Counter()
    updates: list[Update] = []
    time = pick(draw, [0, 1, 2])
    for _ in range(pick(draw, [6, 5, 4, 3, 2, 6, 5, 4, 3, 2, 1, 0])):
        changes = []
        for row in picks(draw, pool, 1, 4):
            target = pick(draw, [1, 2, 3, 1, 0, 0])
            changes += [(row, time, diff) for diff in parts(draw, target - live[row])]
            live[row] = target
        updates += [changes[at] for at in draw(orders(len(changes)))]
        time += pick(draw, [1, 1, 1, 2, 50])
    return updates


NOISE = st.lists(st.sampled_from([-2, -1, 1, 2]), max_size=2)


def parts(draw: Draw, diff: int) -> list[int]:
    """Write a difference as a sum of several."""
    noise = draw(NOISE)
    return [part for part in (*noise, diff - sum(noise)) if part]


def inputs_of(collection: Collection) -> dict[str, Schema]:
    return {node.params: node.schema for node in walk(collection.node) if node.op == "input"}


@cache
def streams_of(collection: Collection) -> st.SearchStrategy[Streams]:
    """Draw a stream for each input of a plan."""
    return st.fixed_dictionaries({name: changes_of(schema) for name, schema in inputs_of(collection).items()})


def times_of(streams: Streams) -> list[int]:
    return sorted({time for stream in streams.values() for _, time, _ in stream})


@st.composite
def cuts(draw: Draw, streams: Streams) -> list[list[int]]:
    """Cut the times of streams into feeds, some of them empty."""
    feeds: list[list[int]] = [[]]
    for time in times_of(streams):
        feeds += [[] for _ in range(pick(draw, [0, 0, 1, 1, 2]))]
        feeds[-1].append(time)
    return feeds


@st.composite
def cases(draw: Draw) -> Case:
    """Draw a plan of up to five steps and streams for its inputs."""
    pool = [Grown(each, signed=False) for each in draw(sources())]
    for _ in range(pick(draw, [5, 4, 3, 2, 1])):
        grown = pick(draw, STEPS)(draw, pool)
        if grown is not None and degree(grown.rows.node) <= MOST_FACTORS:
            names = grown.rows.schema.names
            pool.append(Grown(grown.rows.select(*names[:WIDEST]), grown.signed) if len(names) > WIDEST else grown)
    return Case(pool[-1].rows, draw(streams_of(pool[-1].rows)))


def degree(root: Node) -> int:
    """Count the inputs whose rows are multiplied: crossing a collection with itself squares it."""
    found: dict[int, int] = {}
    for node in walk(root):
        below = [found[id(each)] for each in node.inputs]
        found[id(node)] = sum(below) if node.op == "join" else max(below, default=1)
    return found[id(root)]


@dataclass(frozen=True)
class Grown:
    """A collection, and whether its rows may be there less than zero times."""

    rows: Collection
    signed: bool


def linear(draw: Draw, pool: list[Grown]) -> Grown:
    """Pick what linear operators take: anything, the newest rather than others."""
    return pick(draw, [pool[-1], *pool])


def states(draw: Draw, pool: list[Grown]) -> Collection:
    """Pick what may be looked at."""
    return linear(draw, [each for each in pool if not each.signed]).rows


def where(draw: Draw, pool: list[Grown]) -> Grown:
    given = linear(draw, pool)
    return Grown(given.rows.where(condition(draw, given.rows.schema)), given.signed)


def select(draw: Draw, pool: list[Grown]) -> Grown:
    given = linear(draw, pool)
    names = picks(draw, given.rows.schema.names, most=3)
    (computed,) = unused(given.rows.schema.names, "x")
    return Grown(given.rows.select(*names, **{computed: number(draw, given.rows.schema)}), given.signed)


def concat(draw: Draw, pool: list[Grown]) -> Grown:
    given, other = linear(draw, pool), linear(draw, pool)
    found = shaped(draw, other.rows, given.rows.schema)
    if found is None:
        return Grown(given.rows.concat(given.rows.where(condition(draw, given.rows.schema))), given.signed)
    return Grown(given.rows.concat(found), given.signed or other.signed)


def negate(draw: Draw, pool: list[Grown]) -> Grown:
    return Grown(linear(draw, pool).rows.negate(), signed=True)


def subtract_some(draw: Draw, pool: list[Grown]) -> Grown:
    """Subtract a part of a collection from it, which leaves a state where there was one."""
    given = linear(draw, pool)
    part = given.rows.where(condition(draw, given.rows.schema))
    return Grown(given.rows.concat(part.negate()), given.signed)


AGGREGATES = st.lists(st.sampled_from(["count", "sum", "average"]), min_size=1, max_size=2)


def aggregate(draw: Draw, pool: list[Grown]) -> Grown:
    rows = states(draw, pool)
    keys = picks(draw, rows.schema.names, most=2)
    wanted = draw(AGGREGATES)
    names = unused(keys, *(f"n{place}" for place in range(len(wanted))))
    return Grown(
        rows.aggregate(
            keys, **{name: aggregated(draw, kind, rows.schema) for name, kind in zip(names, wanted, strict=True)}
        ),
        signed=False,
    )


def aggregated(draw: Draw, kind: str, schema: Schema) -> Aggregate:
    if kind == "count":
        return count()
    return {"sum": total, "average": average}[kind](number(draw, schema))


def distinct(draw: Draw, pool: list[Grown]) -> Grown:
    rows = states(draw, pool)
    return Grown(rows.distinct(*picks(draw, rows.schema.names)), signed=False)


def threshold(draw: Draw, pool: list[Grown]) -> Grown:
    return Grown(states(draw, pool).threshold(pick(draw, [1, 2, 3])), signed=False)


def join(draw: Draw, pool: list[Grown]) -> Grown:
    left = states(draw, pool)
    rows, on = apart(draw, left, states(draw, pool))
    return Grown(left.join(rows, on) if on else left.cross(rows), signed=False)


def half_join(draw: Draw, pool: list[Grown]) -> Grown | None:
    """Make a semijoin, antijoin or left join."""
    left = states(draw, pool)
    rows, on = apart(draw, left, states(draw, pool))
    if not on:
        return None
    kind = pick(draw, ["semijoin", "antijoin", "left_join"])
    return Grown(getattr(left, kind)(rows, on), signed=False)


def extreme(draw: Draw, pool: list[Grown]) -> Grown | None:
    rows = states(draw, pool)
    there = [field.name for field in rows.schema.fields if not field.type.nullable and field.type.kind != "text"]
    if not there:
        return None
    by = picks(draw, rows.schema.names, most=2)
    which = pick(draw, ["largest", "smallest"])
    levels = pick(draw, [(), (8, 2)])
    return Grown(getattr(rows, which)(pick(draw, there), by, levels), signed=False)


def top(draw: Draw, pool: list[Grown]) -> Grown:
    rows = states(draw, pool)
    order = picks(draw, rows.schema.names, most=2)
    signs = [pick(draw, ["", "-"]) for _ in order]
    return Grown(
        rows.top(pick(draw, [1, 2, 3, 4]), [sign + name for sign, name in zip(signs, order, strict=True)]), signed=False
    )


def bound(draw: Draw, pool: list[Grown]) -> Grown | None:
    """Compare with a sum or an average per key, at one scale."""
    rows = states(draw, pool)
    others = pick(draw, [rows, states(draw, pool)])
    value, limit = number(draw, rows.schema, 1), number(draw, others.schema, 1)
    zero = Decimal(0).scaleb(-max(bind(value, rows.schema).type.scale, bind(limit, others.schema).type.scale))
    if not (fits(value + zero, rows.schema) and fits(limit + zero, others.schema)):
        return None
    on = keys_between(draw, rows.schema, others.schema)
    kind, numerator, denominator = pick(draw, [(total, "limit", ""), (average, "limit.num", "limit.den")])
    limits = others.aggregate(tuple(on.values()), limit=kind(limit + zero))
    which = pick(draw, ["above", "below"])
    return Grown(getattr(rows, which)(limits, value + zero, numerator, denominator, on), signed=False)


def or_null(draw: Draw, pool: list[Grown]) -> Grown:
    return Grown(states(draw, pool).or_null(), signed=False)


def consolidate(draw: Draw, pool: list[Grown]) -> Grown:
    given = linear(draw, pool)
    return Grown(given.rows.consolidate(), given.signed)


STEPS = [
    join, bound, aggregate, half_join, extreme, top, distinct, threshold, concat, subtract_some, where, select, or_null,
    negate, consolidate, join, bound, aggregate,
]  # fmt: skip


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


def shaped(draw: Draw, rows: Collection, schema: Schema) -> Collection | None:
    """Give a collection the columns of a schema, from those of its own that are alike."""
    found = {}
    for field in schema.fields:
        fitting = [each.name for each in rows.schema.fields if alike(each.type, field.type)]
        if not fitting:
            return None
        found[field.name] = col[pick(draw, fitting)]
    return rows.select(**found)


def keys_between(draw: Draw, left: Schema, right: Schema) -> dict[str, str]:
    """Pair up to two columns that may be joined, {left: right}; missing values are no keys."""
    pairs = [(mine.name, theirs.name) for mine in left.fields for theirs in right.fields if joinable(mine, theirs)]
    found: dict[str, str] = {}
    for _ in range(pick(draw, [0, 1, 2])):
        free = [(mine, theirs) for mine, theirs in pairs if mine not in found and theirs not in found.values()]
        found |= [pick(draw, free)] if free else []
    return found


def joinable(mine: Field, theirs: Field) -> bool:
    return alike(mine.type, theirs.type) and not mine.type.nullable and not theirs.type.nullable


def apart(draw: Draw, left: Collection, right: Collection) -> tuple[Collection, dict[str, str]]:
    """Rename what is on both sides, and pair keys."""
    both = [name for name in right.schema.names if name in left.schema]
    new_names = dict(zip(both, unused([*left.schema.names, *right.schema.names], *both), strict=True))
    renamed = right.rename(**{new: old for old, new in new_names.items()}) if both else right
    return renamed, keys_between(draw, left.schema, renamed.schema)


def fits(expr: Expr, schema: Schema) -> bool:
    """Say whether the planner can bound an expression by 64 bits."""
    try:
        bind(expr, schema)
    except DeltamarkError as error:
        if error.cause != "a value may not fit in 64 bits":
            raise
        return False
    return True


def number(draw: Draw, schema: Schema, depth: int = 2) -> Expr:
    """Write a number: arithmetic over columns, years and constants."""
    leaf = pick(draw, number_leaves(schema))
    if not depth:
        return leaf
    other = pick(draw, [number(draw, schema, depth - 1), *CONSTANTS])
    shape = pick(draw, ["leaf", "add", "subtract", "multiply", "negate", "when"])
    grown = {
        "leaf": lambda: leaf,
        "add": lambda: leaf + other,
        "subtract": lambda: other - leaf,
        "multiply": lambda: leaf * other,
        "negate": lambda: -leaf,
        "when": lambda: when(condition(draw, schema, depth - 1), leaf).otherwise(other),
    }[shape]()
    return grown if fits(grown, schema) else leaf


CONSTANTS = [0, 1, -3, Decimal("0.5"), Decimal("1.25"), Decimal("2.0")]


def number_leaves(schema: Schema) -> list[Expr]:
    leaves = []
    for field in schema.fields:
        match field.type.kind, field.type.nullable:
            case "int", True:
                leaves.append(col[field.name].coalesce(1))
            case "int", False:
                leaves.append(col[field.name])
            case "date", False:
                leaves.append(col[field.name].year())
    return leaves or [Expr("add", 1, 0)]


def condition(draw: Draw, schema: Schema, depth: int = 2) -> Expr:
    """Write a condition: comparisons, joined by and, or, not."""
    leaf = pick(draw, condition_leaves(draw, schema, min(depth, 1)))
    if not depth:
        return leaf
    shape = pick(draw, ["leaf", "and", "or", "not"])
    if shape == "leaf":
        return leaf
    if shape == "not":
        return ~leaf
    other = condition(draw, schema, depth - 1)
    return leaf & other if shape == "and" else leaf | other


def condition_leaves(draw: Draw, schema: Schema, depth: int) -> list[Expr]:
    left, right = number(draw, schema, depth), pick(draw, CONSTANTS)
    leaves = [each for each in (left < right, left == right, left >= right) if fits(each, schema)]
    for field in schema.fields:
        leaves += [col[field.name].is_null()] if field.type.nullable else conditions_on(field)
    return leaves


def conditions_on(field: Field) -> list[Expr]:
    it = col[field.name]
    day = EPOCH + dt.timedelta(days=NEW_YEAR)
    match field.type.kind:
        case "date":
            return [it < day, it == day, it.between(day, day + dt.timedelta(days=1)), it.is_in([day])]
        case "code":
            return [it == "bee", it > "ant", it.is_in(["ant", "cat"]), it.like("_e%"), it.contains("a")]
        case "short":
            return [it == "a", it != "", it.is_in(["ab", "b", "unknown"])]
        case "text":
            return [it == "b", it.is_in(["", "a long text"]), it.like("a%x%t%"), it.substring(2, 3) == " lo", it == it]  # noqa: PLR0124
    return [it.is_in([0, 2]), it <= 1]
