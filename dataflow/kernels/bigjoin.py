"""BiGJoin: find a motif in indexes that do not change, in batches of bounded size.

A level holds prefixes, rows of the variables that are bound so far, that wait to be extended by one more. Each knows
which index proposes its values, the one with fewest, and where the rest of that list is: so a prefix can be extended in
part, and a round makes at most BATCH proposals however long a list is. Next runs the last level that has as many to
make; where none has, more of the first rows are taken in, and when there are none left the last level that has any
runs. So a level never holds more than 2 * BATCH prefixes, which `_push` would refuse, and memory follows the batch.
(Lists that are only counted are not cut: nothing of them is kept.)

The variables at the end that do not depend on each other need not be listed to be counted: their numbers of values are
multiplied. Nor is each row needed to list them: a prefix, and what each of them may be, says as much. Counting one
value set of two lists scans a list against stamps of the other where that one stays the same from prefix to prefix,
unless it is much shorter.
"""

from __future__ import annotations

from dataflow.kernels import index
from dataflow.kernels.intersect import narrow
from dataflow.kernels.keymap import HASHED, find, key_of
from dataflow.kernels.keymap import LOW as LOW_KEY
from dataflow.kernels.lists import COUNT, HEADS, POOL, START, UNIT, WEIGHTED, WIDTH, number, seek
from dataflow.kernels.memory import inline, kernel, load, load32, store, store32, too_wide, wraps

BATCH, LEVELS, LEVEL_TABLE, TAIL, SEED, SEED_FILTERS, SEED_FILTER_TABLE, SEED_IDS, SEED_ID, SEED_AT = range(10)
ROUNDS, PROPOSALS, TOTAL, ERROR, OUT, OUT_COUNT, STAMPS, STAMP, STAMPED, ROW = range(10, 20)
KEPT, SPARE, REST, KEPT_AT, KEPT_SIZE, KEPT_TAIL, KEPT_BUT, VALUES, VALUE_COUNT = range(20, 29)
"""TAIL: the first level whose variables are only counted, together with those of the levels behind it; LEVELS where all
are listed. SEED: the part whose index has the first atom's rows, which are those of SEED_IDS keys; we are at number
SEED_AT of key SEED_ID. TOTAL: weights that were counted. OUT: rows that were listed. STAMPS: int32 a number, STAMP for
those of the list STAMPED. ROW: scratch. KEPT, SPARE, REST: room for lists; KEPT_SIZE numbers at KEPT_AT are what all
parts of the level KEPT_TAIL but number KEPT_BUT have in common. VALUES: room for (value, weight) where the tail is
listed, not counted: a row of OUT is then a prefix, its weight, and how many values each variable of the tail has."""
WORDS = 29

RECORDS, HELD, LEFT, COLUMNS, PARTS, PART_TABLE, BOUND, FILTERS, FILTER_TABLE, MOST = range(10)
"""Of a level. RECORDS: HELD prefixes, which have LEFT values to propose. COLUMNS: of a prefix. BOUND: the column that
holds the value already, or -1. FILTER_TABLE: pairs of columns, the first of which must be smaller. MOST: prefixes that
it ever held."""
LEVEL = 10

INDEX, KEYS, AT, STOP, BEFORE, KEY_TABLE = range(6)
"""Of a part: its index; how many columns its key has, with (column, low, radix) of each from KEY_TABLE on; where the
list of the prefix at hand is; and the address of the one before it."""
MOST_KEYS = 4
PART = KEY_TABLE + 3 * MOST_KEYS

WEIGHT, WHICH, FROM, TO = range(4)
"""Behind the values of a prefix: its weight, which part proposes, and from where to where."""
BEHIND = 4

DONE, FULL, FAILED = 0, 1, 2
TOO_HEAVY, TOO_MANY = 1, 2
MUCH_SHORTER = 8
FOREVER = 2**62


@kernel
def run(op: int) -> int:
    """Run until all is found, or OUT holds BATCH rows or more."""
    levels, batch = load(op, LEVELS), load(op, BATCH)
    last = min(levels - 1, load(op, TAIL))
    while load(op, ERROR) == 0:
        if load(op, OUT_COUNT) >= batch or load(op, VALUE_COUNT) >= batch:
            return FULL
        level = last
        while level >= 0 and load(_level(op, level), LEFT) < batch:
            level -= 1
        if level < 0 and load(op, SEED_ID) < load(op, SEED_IDS):
            _take_in(op)
            continue
        if level < 0:
            level = last
            while level >= 0 and load(_level(op, level), HELD) == 0:
                level -= 1
        if level < 0:
            return DONE
        store(op, ROUNDS, load(op, ROUNDS) + 1)
        _round(op, level)
    return FAILED


@inline
def _level(op: int, level: int) -> int:
    return load(op, LEVEL_TABLE) + 8 * LEVEL * level


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
    level = _level(op, number_of)
    least = _locate(level, row)
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
def _locate(level: int, row: int) -> int:
    """Find the lists that a row may be extended by; return which is the shortest, or -1 if one is empty."""
    least, fewest = 0, FOREVER
    for which in range(load(level, PARTS)):
        part = load(level, PART_TABLE) + 8 * PART * which
        of, key = load(part, INDEX), 0
        for place in range(load(part, KEYS)):
            word = part + 8 * (KEY_TABLE + 3 * place)
            key = key * load(word, 2) + load(row, load(word, 0)) - load(word, 1)
        keys = load(of, index.KEYS)
        key_id = find(keys, key) if load(keys, HASHED) != 0 else key - load(keys, LOW_KEY)
        if key_id < 0:
            return -1
        head = load(of, HEADS) + 16 * key_id
        start, count = load32(head, START) * UNIT, load32(head, COUNT)
        if count == 0:
            return -1
        store(part, AT, start)
        store(part, STOP, start + count)
        if count < fewest:
            least, fewest = which, count
    return least


@kernel
def _round(op: int, number_of: int) -> None:
    """Make a batch of proposals at a level, from its last prefix on."""
    level, budget = _level(op, number_of), load(op, BATCH)
    columns, made = load(level, COLUMNS), 0
    while budget > 0 and load(level, HELD) > 0 and load(op, ERROR) == 0:
        record = load(level, RECORDS) + 8 * (columns + BEHIND) * (load(level, HELD) - 1)
        start, stop = load(record, columns + FROM), load(record, columns + TO)
        if number_of == load(op, TAIL) and load(op, VALUES) != 0:
            budget -= _list_tail(op, number_of, record)
        elif number_of == load(op, TAIL):
            _count(op, number_of, record)
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
    level = _level(op, number_of)
    columns, parts, row = load(level, COLUMNS), load(level, PARTS), load(op, ROW)
    bound, which = load(level, BOUND), load(record, columns + WHICH)
    _locate(level, record)
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
                weight = _times(op, weight, index.weight_at(of, at))
            else:
                weight = _times(op, weight, _weight(load(level, PART_TABLE) + 8 * PART * other, value))
            if weight == 0:
                break
        if weight != 0 and _is_kept(load(level, FILTERS), load(level, FILTER_TABLE), row):
            _hand_on(op, number_of + 1, row, columns + (bound < 0), weight)


@inline
def _times(op: int, a: int, b: int) -> int:
    """Multiply weights."""
    if too_wide(a, b) != 0:
        store(op, ERROR, TOO_HEAVY)
    return a * b


@kernel
def _weight(part: int, value: int) -> int:
    """Return how often a part has a value, searching from where the last search ended."""
    of, stop = load(part, INDEX), load(part, STOP)
    pool, width = load(of, POOL), load(of, WIDTH)
    place = seek(pool, width, load(part, AT), stop, value - load(of, index.LOW))
    store(part, AT, place)
    if place == stop or number(pool, width, place) != value - load(of, index.LOW):
        return 0
    return index.weight_at(of, place)


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


@kernel
def _count(op: int, number_of: int, record: int) -> None:
    """Count the rows that a prefix is extended to by all variables of the tail."""
    total = load(record, load(_level(op, number_of), COLUMNS) + WEIGHT)
    for tail in range(number_of, load(op, LEVELS)):
        level = _level(op, tail)
        least = _locate(level, record)
        if least < 0:
            return
        parts, table = load(level, PARTS), load(level, PART_TABLE)
        if parts == 1 and load(load(table, INDEX), WEIGHTED) == 0:
            found = load(table, STOP) - load(table, AT)
        elif parts == 2 and _are_plain(table, parts):
            found = _common(op, table, table + 8 * PART)
        elif parts > 2 and _are_plain(table, parts):
            found = _common_to_all(op, tail, table, parts)
        else:
            found = _met(op, table, parts, least)
        total = _times(op, total, found)
        if total == 0:
            return
    if wraps(load(op, TOTAL), total) < 0:
        store(op, ERROR, TOO_HEAVY)
    store(op, TOTAL, load(op, TOTAL) + total)


@kernel
def _list_tail(op: int, number_of: int, record: int) -> int:
    """List a prefix with the values of each variable of the tail, if all have some; return how many there are."""
    columns, levels = load(_level(op, number_of), COLUMNS), load(op, LEVELS)
    into = load(op, OUT) + 8 * (columns + 1 + levels - number_of) * load(op, OUT_COUNT)
    start = end = load(op, VALUE_COUNT)
    for tail in range(number_of, levels):
        level, before = _level(op, tail), end
        least = _locate(level, record)
        if least >= 0:
            end = _list_values(op, tail, least, end)
        if end == before:
            return 0
        store(into, columns + 1 + tail - number_of, end - before)
    for column in range(columns):
        store(into, column, load(record, column))
    store(into, columns, load(record, columns + WEIGHT))
    store(op, OUT_COUNT, load(op, OUT_COUNT) + 1)
    store(op, VALUE_COUNT, end)
    return end - start


@kernel
def _list_values(op: int, tail: int, least: int, end: int) -> int:
    """List the values that all parts of a level have; return where they end."""
    level, values = _level(op, tail), load(op, VALUES)
    parts, table = load(level, PARTS), load(level, PART_TABLE)
    part = table + 8 * PART * least
    of = load(part, INDEX)
    if parts > 1 and _are_plain(table, parts):
        found = _common_to_two(op, table) if parts == 2 else _common_to_all(op, tail, table, parts)
        for at in range(found):
            store(values, 2 * (end + at), load32(load(op, REST), at) + load(of, index.LOW))
            store(values, 2 * (end + at) + 1, 1)
        return end + found
    for at in range(load(part, AT), load(part, STOP)):
        value, weight = number(load(of, POOL), load(of, WIDTH), at) + load(of, index.LOW), index.weight_at(of, at)
        for other in range(parts):
            if other != least and weight != 0:
                weight = _times(op, weight, _weight(table + 8 * PART * other, value))
        if weight != 0:
            store(values, 2 * end, value)
            store(values, 2 * end + 1, weight)
            end += 1
    return end


@kernel
def _are_plain(table: int, parts: int) -> bool:
    """Do parts have each row once, of numbers that mean the same?"""
    plain, low = True, load(load(table, INDEX), index.LOW)
    for which in range(parts):
        of = load(table + 8 * PART * which, INDEX)
        plain &= load(of, WIDTH) == 4 and load(of, WEIGHTED) == 0 and load(of, index.LOW) == low
    return plain


@inline
def _common_to_two(op: int, a: int) -> int:
    """List what two lists have in common."""
    b = a + 8 * PART
    return narrow(_list(a), load(a, STOP) - load(a, AT), _list(b), load(b, STOP) - load(b, AT), 0, load(op, REST))


@kernel
def _common_to_all(op: int, tail: int, table: int, parts: int) -> int:
    """Count what several lists have in common: what all but one have is kept while it is that one that changes."""
    changed, last = 0, parts - 1
    for which in range(parts):
        part = table + 8 * PART * which
        if load(part, BEFORE) != _list(part):
            changed, last = changed + 1, which
            store(part, BEFORE, _list(part))
    if changed > 1 or load(op, KEPT_TAIL) != tail or load(op, KEPT_BUT) != last:
        kept, size = 0, -1
        for which in range(parts):
            part = table + 8 * PART * which
            if which != last and size < 0:
                kept, size = _list(part), load(part, STOP) - load(part, AT)
            elif which != last:
                into = load(op, KEPT) if kept != load(op, KEPT) else load(op, SPARE)
                size = narrow(kept, size, _list(part), load(part, STOP) - load(part, AT), 0, into)
                kept = into
        store(op, KEPT_AT, kept)
        store(op, KEPT_SIZE, size)
        store(op, KEPT_TAIL, tail)
        store(op, KEPT_BUT, last)
    part, rest = table + 8 * PART * last, load(op, REST)
    return narrow(load(op, KEPT_AT), load(op, KEPT_SIZE), _list(part), load(part, STOP) - load(part, AT), 0, rest)


@inline
def _list(part: int) -> int:
    return load(load(part, INDEX), POOL) + 4 * load(part, AT)


@kernel
def _met(op: int, table: int, parts: int, least: int) -> int:
    """Count the values that all of several lists have, as often as they have them."""
    part = table + 8 * PART * least
    of, found = load(part, INDEX), 0
    for at in range(load(part, AT), load(part, STOP)):
        value = number(load(of, POOL), load(of, WIDTH), at) + load(of, index.LOW)
        weight = index.weight_at(of, at)
        for other in range(parts):
            if other != least and weight != 0:
                weight = _times(op, weight, _weight(table + 8 * PART * other, value))
        found += weight
    return found


@kernel
def _common(op: int, a: int, b: int) -> int:
    """Count what two lists have in common."""
    a_list, a_size = _list(a), load(a, STOP) - load(a, AT)
    b_list, b_size = _list(b), load(b, STOP) - load(b, AT)
    a_again, b_again = load(a, BEFORE) == a_list, load(b, BEFORE) == b_list
    store(a, BEFORE, a_list)
    store(b, BEFORE, b_list)
    if load(op, STAMPS) != 0:
        if b_size <= MUCH_SHORTER * a_size and (a_again or load(op, STAMPED) == a_list):
            return _stamped(op, a_list, a_size, b_list, b_size)
        if a_size <= MUCH_SHORTER * b_size and (b_again or load(op, STAMPED) == b_list):
            return _stamped(op, b_list, b_size, a_list, a_size)
    if b_size <= a_size:
        return _searched(b_list, b_size, a_list, a_size)
    return _searched(a_list, a_size, b_list, b_size)


@kernel
def _stamped(op: int, slow: int, slow_size: int, fast: int, fast_size: int) -> int:
    """Count the numbers of one list that have the stamp of another one."""
    stamps, stamp, found = load(op, STAMPS), load(op, STAMP), 0
    if load(op, STAMPED) != slow:
        stamp += 1
        for at in range(slow_size):
            store32(stamps, load32(slow, at), stamp)
        store(op, STAMP, stamp)
        store(op, STAMPED, slow)
    for at in range(fast_size):
        found += load32(stamps, load32(fast, at)) == stamp
    return found


@kernel
def _searched(short: int, size: int, long: int, long_size: int) -> int:
    """Count the numbers of one list that are found in another one."""
    place, found = 0, 0
    for at in range(size):
        value = load32(short, at)
        place = seek(long, 4, place, long_size, value)
        if place == long_size:
            break
        found += load32(long, place) == value
    return found
