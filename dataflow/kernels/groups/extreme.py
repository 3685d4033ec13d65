"""Extreme: of each group the rows whose first value is largest, all that tie (smallest: the value is complemented).

The rows of a group form two lists, those that attain the best value (HEAD) and the others (REST). So a row that does
not beat the best costs O(1) to come and to go, and beating the best costs what it hands out; only when the last of the
best leaves are the others looked through.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import key_of, remove
from deltamark.dataflow.kernels.core.memory import kernel, load, load32, store, store32
from deltamark.dataflow.kernels.groups.grouped_rows import (  # fmt: skip
    BEFORE,
    BEST,
    FOUND_BY,
    GROUP_CHAIN,
    HEAD,
    KEYS,
    LAST,
    NEGATIVE,
    REST,
    ROWS,
    VALUES,
    WEIGHT,
    A,
    B,
    emit,
    fail,
    record_of,
    release,
    replace,
)

PREVIOUS, FOLLOWING = A, B


@kernel
def extreme(op: int, group_id: int, group: int) -> int:
    """End a time for a group."""
    rows = load(op, ROWS)
    present, best, slot = False, 0, load(group, GROUP_CHAIN)
    while slot != LAST:
        record = record_of(rows, slot)
        weight, value = load(record, WEIGHT), load(record, VALUES)
        if weight < 0:
            return fail(op, NEGATIVE, ROWS, slot)
        if weight > 0 and (not present or value > best):
            present, best = True, value
        slot = load32(record, 2 * FOUND_BY)
    if present and (load(group, HEAD) == 0 or best > load(group, BEST)):
        _beat(op, rows, group, best)
    _settle(op, rows, group)
    if load(group, HEAD) == 0:
        if load(group, REST) != 0:
            _rescan(op, rows, group)
        else:
            remove(load(op, KEYS), key_of(load(op, KEYS), group_id))
    return 0


@kernel
def _beat(op: int, rows: int, group: int, best: int) -> None:
    """Take back the best rows, all of them, for others will be better."""
    slot = load(group, HEAD)
    while slot != 0:
        record = record_of(rows, slot)
        touched = load32(record, 2 * FOUND_BY) != 0
        emit(op, record, -load(record, BEFORE if touched else WEIGHT))
        following = load(record, FOLLOWING)
        _link(rows, group, REST, slot)
        slot = following
    store(group, HEAD, 0)
    store(group, BEST, best)


@kernel
def _settle(op: int, rows: int, group: int) -> None:
    """Hand out what changed among the best; link the touched rows that are new, and unlink those that have gone."""
    slot, best, waiting = load(group, GROUP_CHAIN), load(group, BEST), 0
    store(group, GROUP_CHAIN, 0)
    while slot != LAST:
        record = record_of(rows, slot)
        touched = load32(record, 2 * FOUND_BY)
        store32(record, 2 * FOUND_BY, 0)
        if load(record, BEFORE) == 0 and load(record, WEIGHT) == 0:
            release(rows, slot)
        elif load(record, VALUES) == best:
            _settle_best(op, rows, group, slot)
        else:
            waiting = _settle_other(rows, group, slot, waiting)
        slot = touched
    _change_others(rows, group, waiting)


@kernel
def _settle_other(rows: int, group: int, slot: int, waiting: int) -> int:
    """Let a row that comes take the place of one that goes, which spares a visit to four neighbours.

    Return the row that now waits for another: its slot if it goes, -slot if it comes, or 0.
    """
    record = record_of(rows, slot)
    before, now = load(record, BEFORE), load(record, WEIGHT)
    if before != 0 and now != 0:
        return waiting
    mine = slot if now == 0 else -slot
    if waiting == 0:
        return mine
    if (waiting > 0) == (mine > 0):
        _change_others(rows, group, mine)
        return waiting
    replace(rows, max(waiting, mine), -min(waiting, mine))
    return 0


@kernel
def _change_others(rows: int, group: int, waiting: int) -> None:
    if waiting > 0:
        _leave(rows, group, REST, waiting)
    elif waiting < 0:
        _link(rows, group, REST, -waiting)


@kernel
def _settle_best(op: int, rows: int, group: int, slot: int) -> None:
    record = record_of(rows, slot)
    before, now = load(record, BEFORE), load(record, WEIGHT)
    if now != before:
        emit(op, record, now - before)
    if before == 0:
        _link(rows, group, HEAD, slot)
    elif now == 0:
        _leave(rows, group, HEAD, slot)


@kernel
def _leave(rows: int, group: int, which: int, slot: int) -> None:
    _unlink(rows, group, which, record_of(rows, slot))
    release(rows, slot)


@kernel
def _rescan(op: int, rows: int, group: int) -> None:
    """Find the best of the others."""
    slot = load(group, REST)
    best = load(record_of(rows, slot), VALUES)
    while slot != 0:
        record = record_of(rows, slot)
        best = max(best, load(record, VALUES))
        slot = load(record, FOLLOWING)
    store(group, BEST, best)
    slot = load(group, REST)
    while slot != 0:
        record = record_of(rows, slot)
        following = load(record, FOLLOWING)
        if load(record, VALUES) == best:
            _unlink(rows, group, REST, record)
            _link(rows, group, HEAD, slot)
            emit(op, record, load(record, WEIGHT))
        slot = following


@kernel
def _link(rows: int, group: int, which: int, slot: int) -> None:
    record, first = record_of(rows, slot), load(group, which)
    store(record, PREVIOUS, 0)
    store(record, FOLLOWING, first)
    if first != 0:
        store(record_of(rows, first), PREVIOUS, slot)
    store(group, which, slot)


@kernel
def _unlink(rows: int, group: int, which: int, record: int) -> None:
    previous, following = load(record, PREVIOUS), load(record, FOLLOWING)
    if previous != 0:
        store(record_of(rows, previous), FOLLOWING, following)
    else:
        store(group, which, following)
    if following != 0:
        store(record_of(rows, following), PREVIOUS, previous)
