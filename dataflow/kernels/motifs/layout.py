"""The state of BiGJoin: levels of prefixes, and the extenders that give them one more column."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Array32, Block, Inline
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import too_wide
from deltamark.dataflow.kernels.motifs.extend import Extender, id_in
from deltamark.dataflow.kernels.ordered.sorted_lists import UNIT, head_of
from deltamark.dataflow.types import FOREVER

OVERFLOW, TOO_MANY_PREFIXES = 1, 2
"""Errors: a weight needs more than 64 bits; a level is full."""


class KeyColumn(Block):
    """A column of a key: its number in the prefix, its low bound, and the number of its values."""

    column: int
    low: int
    radix: int


class StaticExtender(Extender):
    """An extender of prefixes by an index that does not change."""

    last_list: Array32 = NONE
    """The list of the last prefix that was counted."""
    key_columns: int
    key: Inline
    """A `KeyColumn` for each column of the key, and room for MAX_KEY_COLUMNS."""


MAX_KEY_COLUMNS = 4
KEY_COLUMN_WORDS = KeyColumn.size_in_words
EXTENDER_WORDS = StaticExtender.size_in_words + MAX_KEY_COLUMNS * KEY_COLUMN_WORDS


class Prefix(Block):
    """A row of the variables that are bound so far, and the proposals that are left for it."""

    weight: int
    proposer: int
    start: int
    stop: int
    values: Inline


PREFIX_WORDS = Prefix.size_in_words
"""Words of a prefix, without its values."""


class PrefixLevel(Block):
    """The prefixes that wait to be extended by a variable."""

    prefixes: Array
    """A stack of `held` prefixes."""
    held: int = 0
    proposals: int = 0
    """The proposals that are left for all of them."""
    columns: int
    """The values of a prefix."""
    extender_count: int
    extenders: Array
    """A `StaticExtender` for each atom of the variable."""
    bound: int
    """The column whose value the variable has already, or -1."""
    filter_count: int
    filters: Array
    """Pairs of columns, the first of which must be smaller."""
    most_held: int = 0


LEVEL_WORDS = PrefixLevel.size_in_words


class BigJoin(Block):
    """A run of BiGJoin."""

    batch: int
    """The proposals of a round."""
    level_count: int
    levels: Array
    tail: int
    """The first level of the tail, whose variables are counted or listed apart; `level_count` if there is none."""
    seed: StaticExtender
    """The extender whose index has the rows of the first atom."""
    seed_filter_count: int
    seed_filters: Array
    seed_key_id: int = 0
    seed_at: int = 0
    """The next row of the first atom: the id of its key, and its position in the list."""
    seed_stop: int
    """The end of the key ids of the first atom."""
    rounds: int = 0
    proposals: int = 0
    total: int = 0
    """The sum of the counted weights."""
    error: int = 0
    out: Array
    """Listed rows: their values and weight. If the tail is listed: prefixes, their weight, and the number of values of
    each variable of the tail."""
    out_count: int = 0
    values: Array = NONE
    """Pairs of value and weight of the tail's variables, if the tail is listed and not counted."""
    value_count: int = 0
    row: Array
    """Scratch for a row."""
    stamps: Array32
    """For each number the stamp of the last stamped list that contains it; none if there are too many numbers."""
    stamp: int = 0
    stamped_list: Array32 = NONE
    """The list whose numbers have the current stamp."""
    buffer: Array32
    spare_buffer: Array32
    result: Array32
    """Room for intersections."""
    kept_list: Array32 = NONE
    kept_size: int = 0
    kept_level: int = -1
    kept_but: int = 0
    """The intersection of the lists of all extenders of a level but one, which is kept for the next prefix."""


@inline
def level_at(op: BigJoin, number: int) -> PrefixLevel:
    """Return a level by its number."""
    return PrefixLevel(op.levels[LEVEL_WORDS * number :].address)


@inline
def extender_at(extenders: Array, which: int) -> StaticExtender:
    """Return an extender by its number."""
    return StaticExtender(extenders[EXTENDER_WORDS * which :].address)


@inline
def key_column_at(extender: StaticExtender, at: int) -> KeyColumn:
    """Return a column of an extender's key."""
    return KeyColumn(extender.key[KEY_COLUMN_WORDS * at :].address)


@kernel
def open_lists(level: PrefixLevel, row: Array) -> int:
    """Open the lists of a row's keys; return the number of the shortest, or -1 if one is empty."""
    least, fewest = 0, FOREVER
    for which in range(level.extender_count):
        extender = extender_at(level.extenders, which)
        index, key = extender.index, 0
        for at in range(extender.key_columns):
            part = key_column_at(extender, at)
            key = key * part.radix + row[part.column] - part.low
        key_id = id_in(index.keys, key)
        if key_id < 0:
            return -1
        head = head_of(index, key_id)
        start, count = head.start * UNIT, head.count
        if count == 0:
            return -1
        extender.at = start
        extender.stop = start + count
        if count < fewest:
            least, fewest = which, count
    return least


@inline
def product(op: BigJoin, a: int, b: int) -> int:
    """Multiply weights."""
    if too_wide(a, b) != 0:
        op.error = OVERFLOW
    return a * b
