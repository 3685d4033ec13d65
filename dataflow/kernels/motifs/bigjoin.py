"""BiGJoin: find a motif in indexes that do not change, in batches of bounded size.

A level holds prefixes, rows of the variables that are bound so far, which are extended by one more variable. For each
prefix it holds the index with the fewest values, which proposes them, and the rest of its list. So a prefix can be
extended in part, and a round makes at most `batch` proposals, however long a list is.

A round runs the last level that has a batch of proposals. If there is none, more rows of the first atom become
prefixes; if no rows are left, the last level that has any prefixes runs. So a level never holds more than 2 * batch
prefixes, which `_push` would refuse, and the memory is bounded by the batch. (Lists that are only counted are not cut,
because nothing of them is kept.)
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.hashing.hash_map import key_of
from deltamark.dataflow.kernels.motifs.extend import settled_weight
from deltamark.dataflow.kernels.motifs.factorized import count_tail, list_tail
from deltamark.dataflow.kernels.motifs.layout import (
    PREFIX_WORDS,
    TOO_MANY_PREFIXES,
    BigJoin,
    Prefix,
    PrefixLevel,
    StaticExtender,
    extender_at,
    key_column_at,
    level_at,
    open_lists,
    product,
)
from deltamark.dataflow.kernels.ordered.sorted_lists import UNIT, head_of, number_at, weight_at
from deltamark.dataflow.kernels.status import DONE, FAILED, NEEDS_ROOM


@kernel
def run(op: BigJoin) -> int:
    """Run until all rows are found; return NEEDS_ROOM if the output holds a batch of rows or values before."""
    levels, batch = op.level_count, op.batch
    last = min(levels - 1, op.tail)
    while op.error == 0:
        if op.out_count >= batch or op.value_count >= batch:
            return NEEDS_ROOM
        number = last
        while number >= 0 and level_at(op, number).proposals < batch:
            number -= 1
        if number < 0 and op.seed_key_id < op.seed_stop:
            _push_seeds(op)
            continue
        if number < 0:
            number = last
            while number >= 0 and level_at(op, number).held == 0:
                number -= 1
        if number < 0:
            return DONE
        op.rounds += 1
        _round(op, number)
    return FAILED


@kernel
def _push_seeds(op: BigJoin) -> None:
    """Push a batch of the first atom's rows to the first level."""
    seed, row, left, end = op.seed, op.row, op.batch, op.seed_stop
    index, columns, key_id, at = seed.index, seed.key_columns + 1, op.seed_key_id, op.seed_at
    pool, width, low = seed.pool, seed.width, index.low
    while left > 0 and key_id < end:
        head = head_of(index, key_id)
        start, count = head.start * UNIT, head.count
        if at < count:
            _unpack_key(seed, key_of(index.keys, key_id), row)
        stop = min(count, at + left)
        left -= stop - at
        for place in range(start + at, start + stop):
            row[columns - 1] = number_at(pool, width, place) + low
            if _passes(op.seed_filter_count, op.seed_filters, row):
                _push_or_list(op, 0, row, columns, weight_at(index, place))
        at = stop
        if at == count:
            key_id, at = key_id + 1, 0
    op.seed_key_id = key_id
    op.seed_at = at


@kernel
def _unpack_key(seed: StaticExtender, key: int, row: Array) -> None:
    """Write the columns of a key to a row."""
    columns = seed.key_columns
    for at in range(columns - 1, -1, -1):
        part = key_column_at(seed, at)
        row[part.column] = (key % part.radix if columns > 1 else key) + part.low
        key //= part.radix


@kernel
def _push(op: BigJoin, number: int, row: Array, weight: int) -> None:
    """Push a row to a level, if there are proposals for it."""
    level = level_at(op, number)
    proposer = open_lists(level, row)
    if proposer < 0:
        return
    held, columns = level.held, level.columns
    if held >= 2 * op.batch:
        op.error = TOO_MANY_PREFIXES
        return
    prefix = _prefix_at(level, held)
    values = prefix.values
    for column in range(columns):
        values[column] = row[column]
    start, stop = 0, 1
    if level.bound < 0:
        extender = extender_at(level.extenders, proposer)
        start, stop = extender.at, extender.stop
    prefix.weight = weight
    prefix.proposer = proposer
    prefix.start = start
    prefix.stop = stop
    level.held = held + 1
    level.most_held = max(level.most_held, held + 1)
    level.proposals += stop - start


@inline
def _prefix_at(level: PrefixLevel, at: int) -> Prefix:
    return Prefix(level.prefixes[(PREFIX_WORDS + level.columns) * at :].address)


@kernel
def _round(op: BigJoin, number: int) -> None:
    """Make a batch of proposals at a level, from its last prefix on."""
    level, budget, proposals = level_at(op, number), op.batch, 0
    while budget > 0 and level.held > 0 and op.error == 0:
        prefix = _prefix_at(level, level.held - 1)
        start, stop = prefix.start, prefix.stop
        if number == op.tail:
            budget -= list_tail(op, number, prefix)
        else:
            stop = min(stop, start + budget)
            _extend(op, number, prefix, start, stop)
        proposals += stop - start
        budget -= stop - start
        prefix.start = stop
        if stop == prefix.stop:
            level.held -= 1
    level.proposals -= proposals
    op.proposals += proposals


@kernel
def _extend(op: BigJoin, number: int, prefix: Prefix, start: int, stop: int) -> None:
    """Extend a prefix by the proposals, from `start` to `stop`, that all extenders validate."""
    level, row, values = level_at(op, number), op.row, prefix.values
    columns, count, extenders, bound = level.columns, level.extender_count, level.extenders, level.bound
    is_new, proposer = bound < 0, prefix.proposer
    open_lists(level, values)
    for column in range(columns):
        row[column] = values[column]
    extender = extender_at(extenders, proposer)
    index, pool, width = extender.index, extender.pool, extender.width
    low = index.low
    for at in range(start, stop):
        if is_new:
            row[columns] = number_at(pool, width, at) + low
        value, weight = row[columns if is_new else bound], prefix.weight
        for other in range(count):
            if other == proposer and is_new:
                weight = product(op, weight, weight_at(index, at))
            else:
                weight = product(op, weight, settled_weight(extender_at(extenders, other), value))
            if weight == 0:
                break
        if weight != 0 and _passes(level.filter_count, level.filters, row):
            _push_or_list(op, number + 1, row, columns + is_new, weight)


@kernel
def _passes(filter_count: int, filters: Array, row: Array) -> bool:
    """Return whether a row meets all filters."""
    passes = True
    for pair in range(filter_count):
        passes &= row[filters[2 * pair]] < row[filters[2 * pair + 1]]
    return passes


@kernel
def _push_or_list(op: BigJoin, number: int, row: Array, columns: int, weight: int) -> None:
    """Push a row to a level, count what the tail makes of it, or list it if it is complete."""
    if number < op.level_count:
        if number == op.tail and op.values.address == 0:
            count_tail(op, number, row, weight)
        else:
            _push(op, number, row, weight)
        return
    listed = op.out[(columns + 1) * op.out_count :]
    for column in range(columns):
        listed[column] = row[column]
    listed[columns] = weight
    op.out_count += 1
