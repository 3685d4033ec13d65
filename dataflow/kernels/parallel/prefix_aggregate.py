"""Scan: an aggregate of few groups over a stream that each worker has a slice of, without moving rows.

Each worker adds up its slice by group and tells the others; then it adds the sums of the slices before its own to the
state, hands out what its own slice changes, and adds the sums of the slices behind. So every worker has the whole
state when a round ends. What a time changes is handed out by the last worker that has rows of it; for that, sums come
in two parts: of a slice's last time, which may go on, and of those before it.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import LOW
from deltamark.dataflow.kernels.core.memory import add_product, add_wide, inline, kernel, load, store, store_release
from deltamark.dataflow.kernels.groups import aggregate as sums_of
from deltamark.dataflow.kernels.groups.aggregate import aggregate, flush, resolve
from deltamark.dataflow.kernels.parallel.exchange import DONE, LINE, PUBLISHED, SLOTS, awaited

AGGREGATE, WORKER, WORKERS, FRONTIER, UNTIL, ROUND, TOLD, POST, MAILS, INDEX, SPINS = range(1, 12)
"""AGGREGATE: the block, whose FRONTIER is our cell UNTIL. FRONTIER: the round's. TOLD: whether this round's sums have
been published. POST, MAILS: as in an exchange. INDEX: by group 1 + its place in a part, zero between calls."""

ROWS, FIRST, LAST, EARLIER, LATEST, RECORDS = range(6)
"""A mail: rows, first and last time, how many groups in each part; records of a group's id, rows and sums."""

WAITING, FAILED = 1, 2

NEVER = -(2**62)


@kernel
def scan(op: int) -> int:
    worker, workers, number = load(load(op, WORKER), 0), load(op, WORKERS), load(op, ROUND)
    if load(op, TOLD) == 0:
        for other in range(workers):
            if other != worker and not _reached(op, other, DONE, number - SLOTS + 1):
                return WAITING
        _add_up(op, load(op, AGGREGATE), _mail(op, worker))
        store_release(load(op, POST) + 8 * (LINE * worker + PUBLISHED), number + 1)
        store(op, TOLD, 1)
    for other in range(workers):
        if other != worker and not _reached(op, other, PUBLISHED, number + 1):
            return WAITING
    status = _go(op, worker, workers)
    store(op, TOLD, 0)
    store(op, ROUND, number + 1)
    store_release(load(op, POST) + 8 * (LINE * worker + DONE), number + 1)
    return FAILED if status != 0 else 0


@inline
def _reached(op: int, other: int, word: int, number: int) -> bool:
    return awaited(load(op, POST) + 8 * (LINE * other + word), number, load(load(op, SPINS), 0))


@inline
def _mail(op: int, worker: int) -> int:
    return load(load(op, MAILS), SLOTS * worker + load(op, ROUND) % SLOTS)


@kernel
def _add_up(op: int, of: int, mail: int) -> None:
    """Write the sums of the slice."""
    size, times = load(load(of, sums_of.SIZE), 0), load(load(of, sums_of.TIME), 0)
    store(mail, ROWS, size)
    store(mail, EARLIER, 0)
    store(mail, LATEST, 0)
    if size == 0:
        return
    last, start = load(times, size - 1), size - 1
    while start > 0 and load(times, start - 1) == last:
        start -= 1
    store(mail, FIRST, load(times, 0))
    store(mail, LAST, last)
    resolve(of)
    earlier = _add_part(op, of, mail, 0, 0, start)
    store(mail, EARLIER, earlier)
    store(mail, LATEST, _add_part(op, of, mail, earlier, start, size))


@kernel
def _add_part(op: int, of: int, mail: int, before: int, start: int, stop: int) -> int:
    """Add up some rows; return how many groups they have."""
    key, diffs, low = load(load(of, sums_of.KEY), 0), load(load(of, sums_of.DIFF), 0), load(load(of, sums_of.KEYS), LOW)
    sums, values, index, groups = load(of, sums_of.SUMS), load(of, sums_of.RESOLVED), load(op, INDEX), 0
    words = 2 * sums + 3
    records = mail + 8 * (RECORDS + before * words)
    for at in range(start, stop):
        group = load(key, at) - low
        place = load(index, group)
        if place == 0:
            groups += 1
            place = groups
            store(index, group, place)
            store(records, (place - 1) * words, group)
            for word in range(1, words):
                store(records, (place - 1) * words + word, 0)
        record, diff = records + 8 * ((place - 1) * words + 1), load(diffs, at)
        add_product(record, diff, 1)
        for each in range(sums):
            column = load(values, each)
            if column != 0:
                add_product(record + 16 * each + 16, diff, load(column, at))
    for place in range(groups):
        store(index, load(records, place * words), 0)
    return groups


@kernel
def _go(op: int, worker: int, workers: int) -> int:
    """Go through the slices of the round."""
    of, own, frontier = load(op, AGGREGATE), _mail(op, worker), load(load(op, FRONTIER), 0)
    first_with_rows, until, status = -1, NEVER, 0
    for other in range(workers):
        mail = _mail(op, other)
        if load(mail, ROWS) > 0:
            if first_with_rows < 0:
                first_with_rows = other
            if other > worker and until == NEVER:
                until = load(mail, FIRST)
    store(load(op, UNTIL), 0, frontier if until == NEVER else until)
    for other in range(worker):
        _add(of, _mail(op, other))
    if load(own, ROWS) > 0:
        if first_with_rows < worker and load(of, sums_of.NOW) != load(own, FIRST):
            _close(of)
        status = aggregate(of) if load(own, EARLIER) > 0 else _one_time(of, own)
    elif first_with_rows < 0 and worker == 0:
        status = aggregate(of)
    else:
        store(load(of, sums_of.OUT_SIZE), 0, 0)
    for other in range(worker + 1, workers):
        _add(of, _mail(op, other))
    if load(of, sums_of.NOW) < frontier:
        _close(of)
    return status


@kernel
def _one_time(of: int, own: int) -> int:
    """Hand out what a slice of one time changes, of which the sums are known."""
    out, until, rows, live, status = resolve(of), load(load(of, sums_of.FRONTIER), 0), 0, load(of, sums_of.LIVE), 0
    if load(of, sums_of.OPEN) > 0 and load(of, sums_of.NOW) != load(own, LAST):
        rows, live, status = flush(of, out, rows, live, load(of, sums_of.OPEN))
        store(of, sums_of.OPEN, 0)
        store(of, sums_of.LIVE, live)
    _add(of, own)
    if status == 0 and load(own, LAST) < until:
        rows, live, status = flush(of, out, rows, live, load(of, sums_of.OPEN))
        store(of, sums_of.OPEN, 0)
        store(of, sums_of.LIVE, live)
    store(load(of, sums_of.OUT_SIZE), 0, rows)
    return status


@kernel
def _add(of: int, mail: int) -> None:
    """Add the sums of a slice to the state; its last time is open then, the ones before it have been handed out."""
    if load(mail, ROWS) == 0:
        return
    sums, state, saved, touched = (
        load(of, sums_of.SUMS),
        load(of, sums_of.STATE),
        load(of, sums_of.SAVED),
        load(of, sums_of.TOUCHED),
    )
    words, earlier = 2 * sums + 4, load(mail, EARLIER)
    if earlier > 0 or load(of, sums_of.NOW) != load(mail, FIRST):
        _close(of)
    live = load(of, sums_of.LIVE)
    for place in range(earlier):
        source = mail + 8 * (RECORDS + place * (words - 1))
        record = state + 8 * words * load(source, 0)
        live -= load(record, 0) != 0
        for number in range(sums + 1):
            add_wide(record + 16 * number, source + 8 + 16 * number)
        live += load(record, 0) != 0
    store(of, sums_of.LIVE, live)
    store(of, sums_of.NOW, load(mail, LAST))
    opened = load(of, sums_of.OPEN)
    for place in range(earlier, earlier + load(mail, LATEST)):
        source = mail + 8 * (RECORDS + place * (words - 1))
        record = state + 8 * words * load(source, 0)
        if load(record, words - 2) == 0:
            for word in range(words - 2):
                store(saved, opened * words + word, load(record, word))
            store(touched, opened, load(source, 0))
            opened += 1
            store(record, words - 2, opened)
        for number in range(sums + 1):
            add_wide(record + 16 * number, source + 8 + 16 * number)
    store(of, sums_of.OPEN, opened)


@kernel
def _close(of: int) -> None:
    """End the open time without handing anything out: another worker does."""
    words, live = 2 * load(of, sums_of.SUMS) + 4, load(of, sums_of.LIVE)
    for place in range(load(of, sums_of.OPEN)):
        record = load(of, sums_of.STATE) + 8 * words * load(load(of, sums_of.TOUCHED), place)
        store(record, words - 2, 0)
        live += (load(record, 0) != 0) - (load(load(of, sums_of.SAVED), place * words) != 0)
    store(of, sums_of.OPEN, 0)
    store(of, sums_of.LIVE, live)
