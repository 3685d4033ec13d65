"""Random values, rows, change streams and cuts into feeds.

Values are few, so that rows join, tie, cancel and recur; values of wide types lie at the ends of their bounds and near
the keys of other types.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from support.random_plans.choices import Choices
from support.reference.rows import Row, Update

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.input import base_inputs
from deltamark.dataflow.types import (
    BOOL,
    DOUBLE,
    EPOCH,
    LARGEST,
    NULL,
    SHORT,
    TEXT,
    Schema,
    Type,
    code_type,
    date_type,
    integer,
    pack_short,
    stored_double,
)

Streams = Mapping[str, Sequence[Update]]

WORDS = ("ant", "bee", "cat")
SHORTS = ("", "a", "ab", "b", "seven b")
LONG = "a long text of more than sixty-four bytes, so that no cache line has all of it: "
TEXTS = (
    "", "b", "a long text", "a long text too", "a long été", "\U0001f600", "a long", "a long t", "a long te", "\0",
    "a\0", LONG, LONG + "1", LONG + "2", "é" * 40, "x" * 300,
)  # fmt: skip
DOUBLES = (
    0.0, 1.0, 0.1, -0.1, 1e16, -1e16, 2.0**-1074, 1e308, -1e308, math.inf, -math.inf, math.nan, 2.0**-1022, 1 / 3,
)  # fmt: skip
NEW_YEAR = (dt.date(1992, 1, 1) - EPOCH).days
TYPES = [
    integer(-2, 3),
    integer(0, 4),
    integer(-1, 2, scale=2),
    date_type(NEW_YEAR - 2, NEW_YEAR + 2),
    code_type(WORDS),
    SHORT,
    TEXT,
    BOOL,
    DOUBLE,
]
WIDE_TYPES = [
    integer(-LARGEST, LARGEST),
    integer(2**62, LARGEST),
    integer(-LARGEST, -(2**62)),
    integer(0, 9),
    integer(-(2**40), -(2**40) + 65535),
    integer(0, 2**14),
    integer(5, 2**18),
    integer(7, 2**22),
    integer(0, 2**33),
    integer(-(2**40), 2**40),
    integer(-(2**50), 2**50, scale=2),
    date_type(-(2**31) + 1, 2**31 - 1),
    date_type(NEW_YEAR - 2**15, NEW_YEAR + 2**15),
    TEXT,
    SHORT,
]
NULLABLE_TYPES = [each.or_null() for each in TYPES]
WIDE_NULLABLE_TYPES = [each.or_null() for each in WIDE_TYPES]

NOTABLE = sorted({
    *range(-3, 12), 20, 21, 22, 53, 1000, 1016, 1032, 5000, 77_777, 2**14 - 1, 2**14, 2**16 - 1, 2**18, 2**31, 2**33,
    -(2**40), -(2**40) + 1, -(2**40) + 16, -(2**40) + 65535, 2**40, 2**62, 2**62 + 1, 2**62 + 16, -(2**62),
    -(2**62) - 1,
}, key=abs)  # fmt: skip

ROWS = 100_000
MANY_ROWS = 2**43
HEAVY = 2**39
"""A large weight: even if rows of a pool are inserted before others are deleted, no more than `MANY_ROWS` are live."""
SMALL_RANGE = 16
SMALL_POOL = 6
LENGTHS = ((7, 90), (7, 90), (40, 97))
"""The most times of streams, and the chance in percent that one more follows."""
CUTS = ((0, 0, 1, 1, 2), (0, 0, 1, 1, 2), (0, 0, 0, 0, 0, 0, 0, 1))
"""Choices of the number of feeds that end before a time."""
SIZES = ((6, 6, 6, 6, 20, 60), (6, 6, 6, 6, 6, 20), (6,))
"""The most different rows of a stream, by the number of inputs whose weights are multiplied."""


@cache
def values_of(type_: Type) -> Sequence[int | str]:
    """Return the values of columns of a type, the simplest first."""
    match type_.kind:
        case "short":
            return [pack_short(text) or 0 for text in SHORTS]
        case "text":
            return TEXTS
        case "double":
            return [stored_double(each) for each in DOUBLES]
    if type_.high - type_.low < SMALL_RANGE:
        return sorted(range(type_.low, type_.high + 1), key=abs)
    middle = NEW_YEAR if type_.kind == "date" else 0
    near = [middle + each for each in NOTABLE if type_.low <= middle + each <= type_.high]
    return list(dict.fromkeys([*near, type_.low, type_.high, type_.low + 1, type_.high - 1]))


def value(choices: Choices, type_: Type) -> int | str:
    if type_.nullable and choices.chance(35):
        return NULL
    return choices.pick(values_of(type_))


def row(choices: Choices, schema: Schema) -> Row:
    return tuple(value(choices, field.type) for field in schema.fields)


def axis(choices: Choices) -> list[int]:
    """Draw the times of changes: the first may be late, and gaps may lie between them."""
    time, found = choices.pick([0, 0, 1, 2, 2**40]), []
    for _ in choices.some(*choices.pick(LENGTHS)):
        found.append(time)
        time += choices.pick([1, 1, 1, 1, 2, 50, 2**33, 2**40])
    return found


def changes_of(choices: Choices, schema: Schema, times: Sequence[int], sizes: Sequence[int] = (6,)) -> list[Update]:
    """Draw a stream without negative weights at the end of any time.

    Within a time a row may be deleted before it is inserted, in parts, or in vain. sizes: choices of the most rows.
    """
    heavy = schema.rows >= MANY_ROWS
    targets = [1, 2, 3, 1, 0, 0, 1000, HEAVY] if heavy else [1, 2, 3, 1, 0, 0]
    split = choices.pick([parts, parts, units])
    if split is units:
        heavy, targets = False, [1, 2, 0, 0]
    most = SMALL_POOL if heavy else choices.pick(sizes)
    at_once = 4 if most <= SMALL_POOL else most
    pool = list(dict.fromkeys([row(choices, schema), *(row(choices, schema) for _ in choices.some(most, 95))]))
    live: Counter[Row] = Counter()
    updates: list[Update] = []
    for time in times:
        with choices.part():
            if choices.chance(20):
                continue
            if choices.chance(20):
                updates += replacements(choices, schema, live, time)
                continue
            changes: list[Update] = []
            for _ in choices.some(at_once, 80 if at_once <= SMALL_POOL else 92):
                each, target = choices.pick(pool), choices.pick(targets)
                changes += [(each, time, diff) for diff in split(choices, target - live[each])]
                live[each] = target
            updates += choices.shuffled(changes) if choices.chance(70) else changes
    return updates


def replacements(choices: Choices, schema: Schema, live: Counter[Row], time: int) -> list[Update]:
    """Replace rows by others that differ in at most one column: all old rows leave, and then the new ones arrive."""
    rows = [each for each in live if live[each] > 0]
    chosen = list(dict.fromkeys([choices.pick(rows) for _ in choices.some(4, 90)])) if rows else []
    removed, added = [], []
    for each in chosen:
        place = choices.place(len(each))
        new = (*each[:place], value(choices, schema.fields[place].type), *each[place + 1 :])
        weight = live[each]
        removed.append((each, time, -weight))
        added.append((new, time, weight))
        live[each] -= weight
        live[new] += weight
    return removed + added


def parts(choices: Choices, diff: int) -> list[int]:
    """Split a difference into several with the same sum."""
    noise = [choices.pick([-1, 1, -2, 2]) for _ in range(choices.pick([0, 0, 0, 0, 1, 2]))]
    return [part for part in (*noise, diff - sum(noise)) if part]


def units(choices: Choices, diff: int) -> list[int]:
    """Split a difference into insertions and deletions of one row each."""
    noise = choices.pick([0, 0, 0, 1])
    return choices.shuffled([*[1, -1] * noise, *[1 if diff > 0 else -1] * abs(diff)])


def inputs_of(collection: Collection) -> dict[str, Schema]:
    return {node.name: node.schema for node in base_inputs(collection.node)}


def streams_for(
    choices: Choices, schemas: Mapping[str, Schema], factors: int = 3, times: Sequence[int] | None = None
) -> Streams:
    """Draw a stream for each input, over the same times. factors: the number of inputs whose weights are multiplied."""
    times, sizes = axis(choices) if times is None else times, SIZES[min(factors, len(SIZES)) - 1]
    found = {}
    for name, schema in schemas.items():
        with choices.part():
            found[name] = changes_of(choices, schema, times, sizes)
    return found


def spoiled(choices: Choices, streams: Streams) -> Streams:
    """Retract a row once more than its weight, at a random time."""
    name = choices.pick(sorted(streams))
    stream = list(streams[name])
    if not stream:
        return streams
    at = choices.place(len(stream))
    given, time, _ = stream[at]
    live = sum(diff for other, then, diff in stream if other == given and then <= time)
    return {**streams, name: [*stream[:at], (given, time, -live - 1), *stream[at:]]}


def times_of(streams: Streams) -> list[int]:
    return sorted({time for stream in streams.values() for _, time, _ in stream})


def cut(choices: Choices, times: Sequence[int]) -> list[list[int]]:
    """Cut times into feeds, some of them empty. Time 0 is in the first feed, which would end it without rows."""
    feeds: list[list[int]] = [[]]
    cuts = choices.pick(CUTS)
    for time in times:
        feeds += [[] for _ in range(choices.pick(cuts) if time > 0 else 0)]
        feeds[-1].append(time)
    return feeds
