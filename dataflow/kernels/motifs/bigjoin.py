"""BiGJoin: find a motif in indexes that do not change, in batches of bounded size.

A level holds prefixes, rows of the variables that are bound so far, that wait to be extended by one more. Each knows
which index proposes its values, the one with fewest, and where the rest of that list is: so a prefix can be extended in
part, and a round makes at most BATCH proposals however long a list is. Next runs the last level that has as many to
make; where none has, more of the first rows are taken in, and when there are none left the last level that has any
runs. So a level never holds more than 2 * BATCH prefixes, which `_push` would refuse, and memory follows the batch.
(Lists that are only counted are not cut: nothing of them is kept.)
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import key_of
from deltamark.dataflow.kernels.core.memory import kernel, load, load32, store
from deltamark.dataflow.kernels.core.sorted_lists import COUNT, HEADS, POOL, START, UNIT, WIDTH, number
from deltamark.dataflow.kernels.motifs import index
from deltamark.dataflow.kernels.motifs.factorized import count_tail, list_tail
from deltamark.dataflow.kernels.motifs.layout import (
    AT,
    BATCH,
    BEHIND,
    BOUND,
    COLUMNS,
    DONE,
    ERROR,
    FAILED,
    FILTER_TABLE,
    FILTERS,
    FROM,
    FULL,
    HELD,
    INDEX,
    KEY_TABLE,
    KEYS,
    LEFT,
    LEVELS,
    MOST,
    OUT,
    OUT_COUNT,
    PART,
    PART_TABLE,
    PARTS,
    PROPOSALS,
    RECORDS,
    ROUNDS,
    ROW,
    SEED,
    SEED_AT,
    SEED_FILTER_TABLE,
    SEED_FILTERS,
    SEED_ID,
    SEED_IDS,
    STOP,
    TAIL,
    TO,
    TOO_MANY,
    VALUE_COUNT,
    VALUES,
    WEIGHT,
    WHICH,
    level_at,
    locate,
    times,
    weight_of,
)


@kernel
def run(op: int) -> int:
    """Run until all is found, or OUT holds BATCH rows or more."""
    levels, batch = load(op, LEVELS), load(op, BATCH)
    last = min(levels - 1, load(op, TAIL))
    while load(op, ERROR) == 0:
        if load(op, OUT_COUNT) >= batch or load(op, VALUE_COUNT) >= batch:
            return FULL
        level = last
        while level >= 0 and load(level_at(op, level), LEFT) < batch:
            level -= 1
        if level < 0 and load(op, SEED_ID) < load(op, SEED_IDS):
            _take_in(op)
            continue
        if level < 0:
            level = last
            while level >= 0 and load(level_at(op, level), HELD) == 0:
                level -= 1
        if level < 0:
            return DONE
        store(op, ROUNDS, load(op, ROUNDS) + 1)
        _round(op, level)
    return FAILED


@kernel
def _take_in(op: int) -> None:
    """Take in a batch of the first atom's rows."""
    seed, row, left = load(op, SEED), load(op, ROW), load(op, BATCH)
    of, columns, key_id, at = load(seed, INDEX), load(seed, KEYS) + 1, load(op, SEED_ID), load(op, SEED_AT)
    while left > 0 and key_id < load(op, SEED_IDS):
        head = load(of, HEADS) + 16 * key_id
        start, count = load32(head, START) * UNIT, load32(head, COUNT)
        if at < count:
            _unpack(seed, key_of(load(of, index.KEYS), key_id), row)
        stop = min(count, at + left)
        left -= stop - at
        for place in range(start + at, start + stop):
            store(row, columns - 1, number(load(of, POOL), load(of, WIDTH), place) + load(of, index.LOW))
            if _is_kept(load(op, SEED_FILTERS), load(op, SEED_FILTER_TABLE), row):
                _hand_on(op, 0, row, columns, index.weight_at(of, place))
        at = stop
        if at == count:
            key_id, at = key_id + 1, 0
    store(op, SEED_ID, key_id)
    store(op, SEED_AT, at)


@kernel
def _unpack(part: int, key: int, row: int) -> None:
    """Write the columns of a key."""
    columns = load(part, KEYS)
    for place in range(columns - 1, -1, -1):
        word = part + 8 * (KEY_TABLE + 3 * place)
        low, radix = load(word, 1), load(word, 2)
        store(row, load(word, 0), (key % radix if columns > 1 else key) + low)
        key //= radix


@kernel
def _push(op: int, number_of: int, row: int, weight: int) -> None:
    """Let a row wait at a level, if it has values to be extended by."""
    level = level_at(op, number_of)
    least = locate(level, row)
    if least < 0:
        return
    held, columns = load(level, HELD), load(level, COLUMNS)
    if held >= 2 * load(op, BATCH):
        store(op, ERROR, TOO_MANY)
        return
    record = load(level, RECORDS) + 8 * (columns + BEHIND) * held
    for column in range(columns):
        store(record, column, load(row, column))
    start, stop = 0, 1
    if load(level, BOUND) < 0:
        part = load(level, PART_TABLE) + 8 * PART * least
        start, stop = load(part, AT), load(part, STOP)
    store(record, columns + WEIGHT, weight)
    store(record, columns + WHICH, least)
    store(record, columns + FROM, start)
    store(record, columns + TO, stop)
    store(level, HELD, held + 1)
    store(level, MOST, max(load(level, MOST), held + 1))
    store(level, LEFT, load(level, LEFT) + stop - start)


@kernel
def _round(op: int, number_of: int) -> None:
    """Make a batch of proposals at a level, from its last prefix on."""
    level, budget = level_at(op, number_of), load(op, BATCH)
    columns, made = load(level, COLUMNS), 0
    while budget > 0 and load(level, HELD) > 0 and load(op, ERROR) == 0:
        record = load(level, RECORDS) + 8 * (columns + BEHIND) * (load(level, HELD) - 1)
        start, stop = load(record, columns + FROM), load(record, columns + TO)
        if number_of == load(op, TAIL) and load(op, VALUES) != 0:
            budget -= list_tail(op, number_of, record)
        elif number_of == load(op, TAIL):
            count_tail(op, number_of, record)
        else:
            stop = min(stop, start + budget)
            _extend(op, number_of, record, start, stop)
        made += stop - start
        budget -= stop - start
        store(record, columns + FROM, stop)
        if stop == load(record, columns + TO):
            store(level, HELD, load(level, HELD) - 1)
    store(level, LEFT, load(level, LEFT) - made)
    store(op, PROPOSALS, load(op, PROPOSALS) + made)


@kernel
def _extend(op: int, number_of: int, record: int, start: int, stop: int) -> None:
    """Extend a prefix by those of some proposals that all parts have."""
    level = level_at(op, number_of)
    columns, parts, row = load(level, COLUMNS), load(level, PARTS), load(op, ROW)
    bound, which = load(level, BOUND), load(record, columns + WHICH)
    locate(level, record)
    for column in range(columns):
        store(row, column, load(record, column))
    part = load(level, PART_TABLE) + 8 * PART * which
    of = load(part, INDEX)
    for at in range(start, stop):
        if bound < 0:
            store(row, columns, number(load(of, POOL), load(of, WIDTH), at) + load(of, index.LOW))
        value, weight = load(row, bound if bound >= 0 else columns), load(record, columns + WEIGHT)
        for other in range(parts):
            if other == which and bound < 0:
                weight = times(op, weight, index.weight_at(of, at))
            else:
                weight = times(op, weight, weight_of(load(level, PART_TABLE) + 8 * PART * other, value))
            if weight == 0:
                break
        if weight != 0 and _is_kept(load(level, FILTERS), load(level, FILTER_TABLE), row):
            _hand_on(op, number_of + 1, row, columns + (bound < 0), weight)


@kernel
def _is_kept(filters: int, table: int, row: int) -> bool:
    kept = True
    for pair in range(filters):
        kept &= load(row, load(table, 2 * pair)) < load(row, load(table, 2 * pair + 1))
    return kept


@kernel
def _hand_on(op: int, number_of: int, row: int, columns: int, weight: int) -> None:
    """Give a row to the next level, or list it."""
    if number_of < load(op, LEVELS):
        _push(op, number_of, row, weight)
        return
    into = load(op, OUT) + 8 * (columns + 1) * load(op, OUT_COUNT)
    for column in range(columns):
        store(into, column, load(row, column))
    store(into, columns, weight)
    store(op, OUT_COUNT, load(op, OUT_COUNT) + 1)
