"""What BiGJoin keeps: levels of prefixes, the parts that extend them, and where their lists are."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import HASHED, find
from deltamark.dataflow.kernels.core.hash_map import LOW as LOW_KEY
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, store, too_wide
from deltamark.dataflow.kernels.core.sorted_lists import COUNT, HEADS, POOL, START, UNIT, WIDTH, number, seek
from deltamark.dataflow.kernels.motifs import index

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
FOREVER = 2**62


@inline
def level_at(op: int, level: int) -> int:
    return load(op, LEVEL_TABLE) + 8 * LEVEL * level


@kernel
def locate(level: int, row: int) -> int:
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


@inline
def times(op: int, a: int, b: int) -> int:
    """Multiply weights."""
    if too_wide(a, b) != 0:
        store(op, ERROR, TOO_HEAVY)
    return a * b


@kernel
def weight_of(part: int, value: int) -> int:
    """Return how often a part has a value, searching from where the last search ended."""
    of, stop = load(part, INDEX), load(part, STOP)
    pool, width = load(of, POOL), load(of, WIDTH)
    place = seek(pool, width, load(part, AT), stop, value - load(of, index.LOW))
    store(part, AT, place)
    if place == stop or number(pool, width, place) != value - load(of, index.LOW):
        return 0
    return index.weight_at(of, place)
