"""Exchange: the rows of a stream go to the worker that owns their key, or all of them to one or to every worker.

All workers run the same program over the same rounds. In each round a sender writes one mail, a part of it for each
receiver, into memory that all of them share, and then publishes the number of the round; a receiver waits for the
mails of all senders and merges their parts by time. A sender has SLOTS mails, and writes one again when all receivers
have said that they are done with it. So there is no lock, and each word has one writer. Nobody waits for long here:
after SPINS looks the caller is asked to find out why, and to come back.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load_acquire, store, store_release
from deltamark.dataflow.kernels.parallel.key_partition import GOLDEN, owner_of, scaled

(SIZE, COLUMNS, INPUTS, KEYS, KEY_CELLS, LOWEST, RECIPROCAL, WORKER, WORKERS, SENDERS, RECEIVERS, IN_ORDER, ROUND,
 POST, MAILS, ORDER, COUNTS, HASHES, JOINED, PARTS, PLACES, OUT_SIZE, OUT, SPINS, MOST) = range(1, 26)  # fmt: skip
"""COLUMNS counts TIME and DIFF, which come first; INPUTS, OUT: addresses of their cells. KEYS: by how many cells rows
are dealt, 0: all go to each receiver. RECIPROCAL: 0 unless keys from LOWEST up are dealt in blocks. The first SENDERS
workers send, the first RECEIVERS receive. IN_ORDER: no row of a worker is earlier than one of a worker before it.
POST: two lines a worker, shared; MAILS: SLOTS addresses a worker. ORDER: for each owner a list of
rows, as long as the slice may be, of which COUNTS are used. HASHES, JOINED, PARTS (two words a sender: size and where
its columns lie) and PLACES (two words a sender): scratch. SPINS: a cell. MOST: bytes of the largest mail."""

SLOTS = 2
PUBLISHED, DONE, LINE = 0, 16, 32
"""A worker's words in POST, which lie in lines of their own: how many rounds it has sent, and received."""

WAITING = 1
"""Status: nothing was done; come back."""


@kernel
def send(op: int) -> int:
    """Deal the slice, and publish it."""
    worker, number = load(load(op, WORKER), 0), load(op, ROUND)
    if worker >= load(op, SENDERS):
        return 0
    for other in range(load(op, RECEIVERS)):
        if not _reached(op, other, DONE, number - SLOTS + 1):
            return WAITING
    if load(op, KEYS) == 0:
        _deal_to_all(op)
    else:
        _deal(op)
    _write(op, worker, load(load(op, MAILS), SLOTS * worker + number % SLOTS))
    store_release(load(op, POST) + 8 * (LINE * worker + PUBLISHED), number + 1)
    return 0


@kernel
def awaited(address: int, number: int, spins: int) -> bool:
    """Has a word that another worker publishes reached a number, or does it after at most so many looks more?"""
    while load_acquire(address) < number:
        if spins <= 0:
            return False
        spins -= 1
    return True


@kernel
def publish(address: int, number: int) -> None:
    store_release(address, number)


@inline
def _reached(op: int, other: int, word: int, number: int) -> bool:
    return awaited(load(op, POST) + 8 * (LINE * other + word), number, load(load(op, SPINS), 0))


@kernel
def _deal_to_all(op: int) -> None:
    size, order = load(load(op, SIZE), 0), load(op, ORDER)
    for at in range(size):
        store(order, at, at)
    store(load(op, COUNTS), 0, size)


@kernel
def _deal(op: int) -> None:
    """List the rows of the slice by the worker that owns them, each list in the order of the slice."""
    size, workers, order, counts = load(load(op, SIZE), 0), load(op, WORKERS), load(op, ORDER), load(op, COUNTS)
    inverse, low, values = load(op, RECIPROCAL), load(op, LOWEST), load(load(load(op, KEY_CELLS), 0), 0)
    hashes = load(op, HASHES)
    if inverse == 0:
        _hash(op, size, hashes)
    zeros = ones = 0
    if workers > 2:
        for worker in range(workers):
            store(counts, worker, 0)
        for at in range(size):
            owner = owner_of(load(values, at), low, workers, inverse) if inverse != 0 else load(hashes, at)
            place = load(counts, owner)
            store(order, owner * size + place, at)
            store(counts, owner, place + 1)
        return
    if inverse != 0:
        for at in range(size):
            owner = owner_of(load(values, at), low, 2, inverse)
            store(order, size + ones if owner != 0 else zeros, at)
            ones += owner
            zeros += 1 - owner
    else:
        for at in range(size):
            owner = load(hashes, at)
            store(order, size + ones if owner != 0 else zeros, at)
            ones += owner
            zeros += 1 - owner
    store(counts, 0, zeros)
    store(counts, 1, ones)


@kernel
def _hash(op: int, size: int, hashes: int) -> None:
    """Write down the owner of each row, by a hash of its keys."""
    keys, cells, workers = load(op, KEYS), load(op, KEY_CELLS), load(op, WORKERS)
    for key in range(keys):
        values, last = load(load(cells, key), 0), key == keys - 1
        for at in range(size):
            mixed = ((load(hashes, at) if key > 0 else 0) ^ load(values, at)) * GOLDEN
            store(hashes, at, scaled(mixed, workers) if last else mixed ^ ((mixed >> 32) & 0xFFFFFFFF))


@kernel
def _write(op: int, worker: int, mail: int) -> None:
    """Write the parts of the other receivers: for each its place and size, then their columns."""
    receivers, columns, to_all = load(op, RECEIVERS), load(op, COLUMNS), load(op, KEYS) == 0
    order, counts, place, written = load(op, ORDER), load(op, COUNTS), 2 * receivers, False
    for receiver in range(receivers):
        rows = order + (0 if to_all else 8 * receiver * load(load(op, SIZE), 0))
        size = load(counts, 0 if to_all else receiver)
        store(mail, 2 * receiver, place)
        store(mail, 2 * receiver + 1, size)
        if receiver == worker or size == 0 or (to_all and written):
            continue
        written = True
        for column in range(columns):
            source, target = load(load(load(op, INPUTS), column), 0), mail + 8 * (place + column * size)
            for at in range(size):
                store(target, at, load(source, load(rows, at)))
        if not to_all:
            place += columns * size
    store(op, MOST, max(load(op, MOST), 8 * (2 * receivers + columns * load(load(op, SIZE), 0))))


@kernel
def receive(op: int) -> int:
    """Merge what all have sent to this worker."""
    worker, number, senders = load(load(op, WORKER), 0), load(op, ROUND), load(op, SENDERS)
    if worker >= load(op, RECEIVERS):
        store(load(op, OUT_SIZE), 0, 0)
        store(op, ROUND, number + 1)
        return 0
    for sender in range(senders):
        if sender != worker and not _reached(op, sender, PUBLISHED, number + 1):
            return WAITING
    parts, filled, total = load(op, PARTS), 0, 0
    for sender in range(senders):
        size = _part(op, worker, sender, parts + 16 * sender)
        total += size
        filled += size > 0
    if filled < 2 or load(op, IN_ORDER) != 0:
        _append(op, worker)
    else:
        _pick(op, worker, total)
        _gather(op, worker, total)
    store(load(op, OUT_SIZE), 0, total)
    store(op, ROUND, number + 1)
    store_release(load(op, POST) + 8 * (LINE * worker + DONE), number + 1)
    return 0


@kernel
def _part(op: int, worker: int, sender: int, part: int) -> int:
    """Find a sender's part: its size and where it lies; of one's own, the list of its rows."""
    if sender == worker:
        mine = worker if load(op, KEYS) != 0 else 0
        size = load(load(op, COUNTS), mine)
        store(part, 0, size)
        store(part, 1, load(op, ORDER) + 8 * mine * load(load(op, SIZE), 0))
        return size
    mail = load(load(op, MAILS), SLOTS * sender + load(op, ROUND) % SLOTS)
    size = load(mail, 2 * worker + 1)
    store(part, 0, size)
    store(part, 1, mail + 8 * load(mail, 2 * worker))
    return size


@kernel
def _append(op: int, worker: int) -> None:
    """Copy the parts one after the other."""
    parts = load(op, PARTS)
    for column in range(load(op, COLUMNS)):
        target = load(load(load(op, OUT), column), 0)
        for sender in range(load(op, SENDERS)):
            size, data = load(parts, 2 * sender), load(parts, 2 * sender + 1)
            if sender == worker:
                source = load(load(load(op, INPUTS), column), 0)
                for at in range(size):
                    store(target, at, load(source, load(data, at)))
            else:
                source = data + 8 * column * size
                for at in range(size):
                    store(target, at, load(source, at))
            target += 8 * size


@kernel
def _pick(op: int, worker: int, total: int) -> None:
    """Merge by time: write down for each row of the output from which part it comes, and which of its rows it is.

    The times of the parts are gathered into the output's second column on the way, one part after the other.
    """
    senders, parts, places = load(op, SENDERS), load(op, PARTS), load(op, PLACES)
    picks, times, start = load(op, HASHES), load(load(load(op, OUT), 1), 0), 0
    for sender in range(senders):
        size, data = load(parts, 2 * sender), load(parts, 2 * sender + 1)
        if sender == worker:
            source = load(load(load(op, INPUTS), 0), 0)
            for at in range(size):
                store(times, start + at, load(source, load(data, at)))
        else:
            for at in range(size):
                store(times, start + at, load(data, at))
        store(places, 2 * sender, start)
        start += size
        store(places, 2 * sender + 1, start)
    if senders == 2:
        a, b, middle = 0, load(places, 2), load(places, 2)
        out = 0
        while a < middle and b < total:
            second = 1 if load(times, b) < load(times, a) else 0
            store(picks, out, b if second != 0 else a)
            a += 1 - second
            b += second
            out += 1
        for at in range(a, middle):
            store(picks, out + at - a, at)
        out += middle - a
        for at in range(b, total):
            store(picks, out + at - b, at)
        return
    for out in range(total):
        first = -1
        for sender in range(senders):
            place = load(places, 2 * sender)
            if place < load(places, 2 * sender + 1) and (
                first < 0 or load(times, place) < load(times, load(places, 2 * first))
            ):
                first = sender
        place = load(places, 2 * first)
        store(picks, out, place)
        store(places, 2 * first, place + 1)


@kernel
def _gather(op: int, worker: int, total: int) -> None:
    """Put each column's parts one after the other, and pick from there."""
    parts, picks, joined = load(op, PARTS), load(op, HASHES), load(op, JOINED)
    for column in range(load(op, COLUMNS)):
        target, out = joined, load(load(load(op, OUT), column), 0)
        for sender in range(load(op, SENDERS)):
            size, data = load(parts, 2 * sender), load(parts, 2 * sender + 1)
            if sender == worker:
                source = load(load(load(op, INPUTS), column), 0)
                for at in range(size):
                    store(target, at, load(source, load(data, at)))
            else:
                source = data + 8 * column * size
                for at in range(size):
                    store(target, at, load(source, at))
            target += 8 * size
        for at in range(total):
            store(out, at, load(joined, load(picks, at)))
