"""Long streams, drawn from a seed."""

from __future__ import annotations

import random

from support.reference.rows import Update

from deltamark.dataflow.types import Schema, Type, pack_short, stored_double


def any_value(order: random.Random, type_: Type) -> int | str:
    if type_.kind == "text":
        return order.choice(["a text", "a text too", "b", "x and t"])
    if type_.kind == "double":
        return stored_double(order.choice([0.1, -1e16, 1e16, 3.0]))
    return pack_short(order.choice("ab")) if type_.kind == "short" else order.randint(type_.low, type_.high)


def long_stream(schema: Schema, seed: int, times: int) -> list[Update]:
    """Return a stream that inserts a row at each time, and deletes old ones so that at most ten live."""
    order = random.Random(seed)
    live, updates = [], []
    for time in range(times):
        row = tuple(any_value(order, each.type) for each in schema.fields)
        live.append(row)
        updates.append((live[-1], time, 1))
        if order.random() < 0.5 or len(live) > 10:
            updates.append((live.pop(order.randrange(len(live))), time, -1))
    return updates


def with_one_key(schema: Schema, seed: int, rows: int) -> list[Update]:
    """Return a stream that inserts many rows with equal keys at three times, and deletes half of them at a fourth."""
    order = random.Random(seed)

    def value(name: str, type_: Type) -> int | str:
        return 1 if name == "key" else any_value(order, type_)

    drawn_rows = [tuple(value(each.name, each.type) for each in schema.fields) for _ in range(rows)]
    inserted = [(row, 3 * place // rows, 1) for place, row in enumerate(drawn_rows)]
    return inserted + [(row, 5, -1) for row in drawn_rows[::2]]


def spread_stream(seed, times):
    """Return updates of rows with a dozen keys, far apart or adjacent, within the bounds of both sides."""
    order = random.Random(seed)
    keys = [5, 6, 20, 21, 22, 53, 1000, 1016, 1032, 5000, 77_777, 1 << 18]
    live, updates, time = [], [], 0
    for _ in range(times):
        time += order.choice([0, 0, 1, 1, 2])
        if live and order.random() < 0.4:
            updates.append((live.pop(order.randrange(len(live))), time, -1))
        else:
            live.append((order.choice(keys), order.randint(0, 9)))
            updates.append((live[-1], time, 1))
    return updates
