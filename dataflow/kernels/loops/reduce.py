"""The end of a loop's body: of the rows under a key, those that the next iteration begins with.

Under each key are values, each with a weight; what is kept is the least value whose weight is at least LEAST. What
came is remembered with its iteration. A key that changes is looked at again at that iteration, and at each later one
at which it has a past; what differs there from what was said before the epoch goes into the next iteration. An epoch
is over when no key is left to be looked at; then the answer tells what differs after all iterations.

Each iteration's rows follow from those of the one before. So a loop whose rows are again what they were some iterations
ago, but not all the time in between, never ends; sums of hashes of the rows tell, once an epoch has gone on for LONG.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import key_of, remove
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, prefetch, store, store32
from deltamark.dataflow.kernels.loops import running_sums, trace, worklist

PAST, DUE, CHOSEN, SORTED, TOUCHED, OPEN, LEAST, LIMIT, NOW = range(9)
OUT_SIZE, OUT_ITERATION, OUT_DIFF, OUT_KEY, OUT_VALUE = range(9, 14)
ANSWER_SIZE, ANSWER_TIME, ANSWER_DIFF, ANSWER_KEY, ANSWER_VALUE, ERROR, ERROR_KEY, ERROR_VALUE = range(14, 22)
FOLDS, FOLDS_USED, DIGESTS, LOOKED_AT, LOOKS, SUMMED_TO, DIGEST, MARKED, MARKED_AT, LASTS, HAS_MOVED = range(22, 33)
MANY, LONG = 33, 34
WORDS = 35
"""PAST, DUE: blocks of what is remembered, and of which keys are to be looked at when. TOUCHED: the OPEN keys that the
epoch has changed. CHOSEN, SORTED: scratch. The others are cells, but for numbers.
FOLDS: an area of which FOLDS_USED words hold the folds of the epoch. DIGESTS: for each iteration the sum of the hashes
of the rows that it adds, over all epochs. LOOKED_AT: the last iteration of LOOKS that the epoch has looked at. DIGEST:
the sum of those up to SUMMED_TO, which is that of all rows of the iteration; MARKED: what it was when LOOKS was
MARKED_AT, which it is compared with until LASTS more, and HAS_MOVED: was it anything else since? MANY: rows of a key
that are better added up than looked through twice in an epoch. LONG: iterations of an epoch before its rows are
compared with those of earlier ones."""

LIST, DUE_AT, IS_TOUCHED, SURE_FROM = range(4)
SURE_VALUE = 2
KEY_WIDTH = 6
"""Of a key, int32s: its list, 1 + the iteration at which it is to be looked at next, whether it was touched, and 1 + an
iteration from which on SURE_VALUE (a word) is known to be there: what is no better and comes later changes nothing.
IS_TOUCHED: 0, TOUCHED_ONCE, SEEN_ONCE by a look that found MANY rows, or the place of the key's fold in FOLDS."""

TOUCHED_ONCE, SEEN_ONCE = 1, -1

FOLDS_FROM = 2
"""Where the first fold lies in its area: lower numbers mean something else in IS_TOUCHED."""


VALUE, BEFORE = trace.VALUES, trace.VALUES + 1
"""Of a remembered row: its value, and its weight before the epoch."""

CLOSING = 1
"""The operator: the block of all this."""

FAILED = 2
NEGATIVE, TOO_HEAVY, ENDLESS, CIRCLING = 1, 2, 3, 4
"""Errors."""

FAR, NEAR = 16, 8
NEVER = 2**62


@kernel
def take_in(op: int) -> int:
    """Remember the slice's rows, and have their keys looked at."""
    of = load(op, CLOSING)
    remembered = load(of, PAST)
    if trace.absorb(remembered) < 0:
        store(of, ERROR, TOO_HEAVY)
        return FAILED
    ids, iterations = load(remembered, trace.IDS), load(load(remembered, trace.ITERATION), 0)
    diffs, values = load(load(remembered, trace.DIFF), 0), load(load(remembered, trace.RESOLVED), 0)
    lists, touched, opened = load(remembered, trace.LISTS), load(of, TOUCHED), load(of, OPEN)
    for at in range(load(load(remembered, trace.SIZE), 0)):
        key_id = load(ids, at)
        state, iteration = lists + 4 * KEY_WIDTH * key_id, load(iterations, at)
        store(touched, opened, key_id)
        seen = load32(state, IS_TOUCHED)
        opened += seen == 0
        store32(state, IS_TOUCHED, TOUCHED_ONCE if seen == 0 else seen)
        if load(diffs, at) < 0:
            store32(state, SURE_FROM, 0)
            if seen > TOUCHED_ONCE:
                store(load(of, FOLDS) + 8 * seen, running_sums.NEGATIVE, 1)
        planned = load32(state, DUE_AT)
        if (planned == 0 or planned > iteration + 1) and not _is_beaten(state, iteration, load(values, at)):
            store32(state, DUE_AT, iteration + 1)
            worklist.add(load(of, DUE), key_id, iteration)
    store(of, OPEN, opened)
    return 0


@inline
def _is_beaten(state: int, iteration: int, value: int) -> bool:
    """Is there a value for sure that is at least as good as this one, and no later?"""
    sure = load32(state, SURE_FROM)
    return sure != 0 and sure <= iteration + 1 and load(state, SURE_VALUE) <= value


@kernel
def look(of: int, most: int) -> int:
    """Look at the next `most` keys of the first iteration that has any; say what comes of it in the next one."""
    agenda, remembered = load(of, DUE), load(of, PAST)
    if not worklist.any_left(agenda):
        return 0
    iteration = worklist.first(agenda)
    if iteration != load(of, LOOKED_AT) and _circles(of, iteration):
        return FAILED
    lists, records, words = (
        load(remembered, trace.LISTS),
        load(remembered, trace.RECORDS),
        load(remembered, trace.WORDS),
    )
    chosen, count, out = load(of, CHOSEN), worklist.take(agenda, most, load(of, CHOSEN)), 0
    for index in range(count):
        prefetch(lists + 4 * KEY_WIDTH * load(chosen, index + FAR))
        near = load(chosen, index + NEAR) if index + NEAR < count else load(chosen, index)
        prefetch(records + 8 * words * load32(lists, KEY_WIDTH * near))
        key_id = load(chosen, index)
        state = lists + 4 * KEY_WIDTH * key_id
        if load32(state, DUE_AT) != iteration + 1:
            continue  # it has been looked at since it was put here
        store32(state, DUE_AT, 0)
        out, following = _compare(of, remembered, key_id, iteration, out)
        if out < 0:
            return FAILED
        if following != NEVER:
            store32(state, DUE_AT, following + 1)
            worklist.add(agenda, key_id, following)
    store(load(of, OUT_SIZE), 0, out)
    if out > 0 and iteration >= load(of, LIMIT):
        store(of, ERROR, ENDLESS)
        return FAILED
    return 0


@kernel
def _circles(of: int, iteration: int) -> bool:
    """Take note of a new iteration, whose rows are all known; are they those of an earlier one, after others?"""
    looks, long = load(of, LOOKS) + 1, load(of, LONG)
    store(of, LOOKED_AT, iteration)
    store(of, LOOKS, looks)
    if looks < long:
        return False
    total, marked, moved = load(of, DIGEST), load(of, MARKED), load(of, HAS_MOVED)
    for each in range(load(of, SUMMED_TO) + 1, iteration + 1):
        total += load(load(of, DIGESTS), each)
        moved |= total != marked
    store(of, SUMMED_TO, iteration)
    store(of, DIGEST, total)
    store(of, HAS_MOVED, moved)
    if looks > long and moved != 0 and total == marked:
        store(of, ERROR, CIRCLING)
        store(of, ERROR_VALUE, looks - load(of, MARKED_AT))
        return True
    if looks == long or looks - load(of, MARKED_AT) >= load(of, LASTS):
        store(of, LASTS, long if looks == long else 2 * load(of, LASTS))
        store(of, MARKED, total)
        store(of, MARKED_AT, looks)
        store(of, HAS_MOVED, 0)
    return False


@inline
def _hash(key: int, value: int) -> int:
    mixed = (key ^ (key >> 32)) * -7046029254386353131
    mixed = (mixed ^ (mixed >> 29) ^ value) * -7046029254386353131
    return (mixed ^ (mixed >> 32)) * -7046029254386353131


@kernel
def _compare(of: int, remembered: int, key_id: int, iteration: int, out: int) -> tuple[int, int]:
    """Say what a key adds at an iteration that it did not add before.

    Return the new number of rows, -1 if a weight is negative, and the next iteration at which the key has a past.
    """
    if load32(load(remembered, trace.LISTS) + 4 * KEY_WIDTH * key_id, IS_TOUCHED) > TOUCHED_ONCE:
        return _compare_sums(of, remembered, key_id, iteration, out)
    following, plain, many = NEVER, True, 0
    now = earlier = was = was_earlier = NEVER
    state, since, later, fresh = load(remembered, trace.LISTS) + 4 * KEY_WIDTH * key_id, 0, NEVER, True
    slot = load32(state, LIST)
    while slot != 0:
        record = trace.record_of(remembered, slot)
        came, value, weight, before = (
            load32(record, trace.CAME),
            load(record, VALUE),
            load(record, trace.WEIGHT),
            load(record, BEFORE),
        )
        plain &= weight >= 0 and before >= 0
        fresh &= before == 0
        many += 1
        if came > iteration:
            following, later = min(following, came), min(later, value)
        else:
            if weight > 0 and (value < now or (value == now and came + 1 < since)):
                now, since = value, came + 1
            earlier = min(earlier, value) if weight > 0 and came < iteration else earlier
            was = min(was, value) if before > 0 else was
            was_earlier = min(was_earlier, value) if before > 0 and came < iteration else was_earlier
        slot = load32(record, trace.AFTER)
    plain &= load(of, LEAST) == 1
    store32(state, SURE_FROM, since if plain else 0)
    store(state, SURE_VALUE, now)
    if fresh and since != 0 and plain and later >= now:
        following = NEVER  # what came later makes no difference, nor did it before the epoch
    if not plain:
        now, earlier, was, was_earlier, status = _weigh(of, remembered, key_id, iteration)
        if status != 0:
            return -1, following
    if many > load(of, MANY):
        _fold(of, remembered, key_id, iteration)
    return _told(of, remembered, key_id, iteration, out, now, earlier, was, was_earlier), following


@kernel
def _fold(of: int, remembered: int, key_id: int, iteration: int) -> None:
    """Have a key's next look find its rows added up, if this one is not the first."""
    state = load(remembered, trace.LISTS) + 4 * KEY_WIDTH * key_id
    if load32(state, IS_TOUCHED) == TOUCHED_ONCE:
        store32(state, IS_TOUCHED, SEEN_ONCE)
        return
    used, count = load(of, FOLDS_USED), _sort(of, remembered, key_id, iteration)
    store32(state, IS_TOUCHED, used)
    first, rows = load32(state, LIST), load(of, SORTED)
    used = running_sums.begin(load(of, FOLDS), used, remembered, first, BEFORE, iteration, rows, count)
    store(of, FOLDS_USED, used)


@kernel
def _compare_sums(of: int, remembered: int, key_id: int, iteration: int, out: int) -> tuple[int, int]:
    """Do as `_compare` does for a key that has a fold."""
    state, area, used, least = (
        load(remembered, trace.LISTS) + 4 * KEY_WIDTH * key_id,
        load(of, FOLDS),
        load(of, FOLDS_USED),
        load(of, LEAST),
    )
    sums, first = area + 8 * load32(state, IS_TOUCHED), load32(state, LIST)
    used = running_sums.add_until(area, used, sums, remembered, first, BEFORE, iteration)
    earlier = running_sums.value_at(sums, running_sums.least(sums, running_sums.NOW, least))
    was_earlier = running_sums.value_at(sums, running_sums.least(sums, running_sums.BEFORE, least))
    store(of, FOLDS_USED, running_sums.add_until(area, used, sums, remembered, first, BEFORE, iteration + 1))
    place = running_sums.least(sums, running_sums.NOW, least)
    now, since = running_sums.value_at(sums, place), running_sums.since_at(sums, place)
    was = running_sums.value_at(sums, running_sums.least(sums, running_sums.BEFORE, least))
    debt, following = running_sums.negative(sums), running_sums.following(sums, remembered, first)
    if debt >= 0:
        store(of, ERROR, NEGATIVE)
        store(of, ERROR_KEY, key_id)
        store(of, ERROR_VALUE, running_sums.value_at(sums, debt))
        return -1, following
    store32(state, SURE_FROM, since if load(sums, running_sums.NEGATIVE) == 0 and least == 1 else 0)
    store(state, SURE_VALUE, now)
    return _told(of, remembered, key_id, iteration, out, now, earlier, was, was_earlier), following


@kernel
def _told(
    of: int, remembered: int, key_id: int, iteration: int, out: int, now: int, earlier: int, was: int, was_earlier: int
) -> int:
    """Say what differs between what a key adds now and what it added before the epoch; return the number of rows."""
    if now == earlier and was == was_earlier:
        return out
    start, digest = out, load(load(of, DIGESTS), iteration + 1)
    out = _say(of, start, out, now, 1)
    out = _say(of, start, out, was_earlier, 1)
    out = _say(of, start, out, earlier, -1)
    out = _say(of, start, out, was, -1)
    kept = start
    diffs, values = load(load(of, OUT_DIFF), 0), load(load(of, OUT_VALUE), 0)
    keys, iterations = load(load(of, OUT_KEY), 0), load(load(of, OUT_ITERATION), 0)
    key = key_of(load(remembered, trace.KEYS), key_id)
    for at in range(start, out):
        store(diffs, kept, load(diffs, at))
        store(values, kept, load(values, at))
        store(keys, kept, key)
        store(iterations, kept, iteration + 1)
        digest += _hash(key, load(values, at)) * load(diffs, at)
        kept += load(diffs, at) != 0
    store(load(of, DIGESTS), iteration + 1, digest)
    return kept


@kernel
def _say(of: int, start: int, out: int, value: int, diff: int) -> int:
    """Add a value, unless there is none, to those that a key says."""
    if value == NEVER:
        return out
    diffs, values = load(load(of, OUT_DIFF), 0), load(load(of, OUT_VALUE), 0)
    for at in range(start, out):
        if load(values, at) == value:
            store(diffs, at, load(diffs, at) + diff)
            return out
    store(diffs, out, diff)
    store(values, out, value)
    return out + 1


@kernel
def _weigh(of: int, remembered: int, key_id: int, iteration: int) -> tuple[int, int, int, int, int]:
    """Return the least values that have enough weight: now, one iteration earlier, and both before the epoch."""
    count, least, rows = _sort(of, remembered, key_id, iteration), load(of, LEAST), load(of, SORTED)
    now = earlier = was = was_earlier = NEVER
    at = 0
    while at < count:
        value, total, total_earlier, total_was, total_was_earlier = load(rows, 4 * at), 0, 0, 0, 0
        while at < count and load(rows, 4 * at) == value:
            weight, before = load(rows, 4 * at + 1), load(rows, 4 * at + 2)
            total += weight
            total_was += before
            if load(rows, 4 * at + 3) < iteration:
                total_earlier += weight
                total_was_earlier += before
            at += 1
        if total < 0:
            store(of, ERROR, NEGATIVE)
            store(of, ERROR_KEY, key_id)
            store(of, ERROR_VALUE, value)
            return now, earlier, was, was_earlier, NEGATIVE
        now = min(now, value) if total >= least else now
        earlier = min(earlier, value) if total_earlier >= least else earlier
        was = min(was, value) if total_was >= least else was
        was_earlier = min(was_earlier, value) if total_was_earlier >= least else was_earlier
    return now, earlier, was, was_earlier, 0


@kernel
def _sort(of: int, remembered: int, key_id: int, iteration: int) -> int:
    """Write down what is remembered of a key, in order of values: value, weight, weight before, iteration."""
    rows, count, slot = load(of, SORTED), 0, load32(load(remembered, trace.LISTS), KEY_WIDTH * key_id)
    while slot != 0:
        record = trace.record_of(remembered, slot)
        if load32(record, trace.CAME) <= iteration:
            store(rows, 4 * count, load(record, VALUE))
            store(rows, 4 * count + 1, load(record, trace.WEIGHT))
            store(rows, 4 * count + 2, load(record, BEFORE))
            store(rows, 4 * count + 3, load32(record, trace.CAME))
            count += 1
        slot = load32(record, trace.AFTER)
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for start in range(gap, count):
            a, b, c, d = (
                load(rows, 4 * start),
                load(rows, 4 * start + 1),
                load(rows, 4 * start + 2),
                load(rows, 4 * start + 3),
            )
            at = start
            while at >= gap and load(rows, 4 * (at - gap)) > a:
                for word in range(4):
                    store(rows, 4 * at + word, load(rows, 4 * (at - gap) + word))
                at -= gap
            store(rows, 4 * at, a)
            store(rows, 4 * at + 1, b)
            store(rows, 4 * at + 2, c)
            store(rows, 4 * at + 3, d)
        gap //= 3
    return count


@kernel
def finish(of: int) -> int:
    """End an epoch: say what has changed in the answer, and forget what has gone."""
    remembered, touched, count = load(of, PAST), load(of, TOUCHED), load(of, OPEN)
    lists, keys, out = load(remembered, trace.LISTS), load(remembered, trace.KEYS), load(load(of, ANSWER_SIZE), 0)
    records, words = load(remembered, trace.RECORDS), load(remembered, trace.WORDS)
    for index in range(count):
        if index + FAR < count:
            prefetch(lists + 4 * KEY_WIDTH * load(touched, index + FAR))
            prefetch(records + 8 * words * load32(lists, KEY_WIDTH * load(touched, index + NEAR)))
        key_id = load(touched, index)
        state = lists + 4 * KEY_WIDTH * key_id
        store32(state, IS_TOUCHED, 0)
        now, was, status = _ended(of, remembered, key_id)
        if status != 0:
            return FAILED
        key = key_of(keys, key_id)
        if now != was:
            out = _answer(of, out, key, was, -1)
            out = _answer(of, out, key, now, 1)
        if load32(state, LIST) == 0:
            remove(keys, key)
    store(load(of, ANSWER_SIZE), 0, out)
    for word in (OPEN, LOOKED_AT, LOOKS, SUMMED_TO, DIGEST):
        store(of, word, 0)
    store(of, FOLDS_USED, FOLDS_FROM)
    return 0


@kernel
def _answer(of: int, out: int, key: int, value: int, diff: int) -> int:
    if value == NEVER:
        return out
    store(load(load(of, ANSWER_TIME), 0), out, load(load(of, NOW), 0))
    store(load(load(of, ANSWER_DIFF), 0), out, diff)
    store(load(load(of, ANSWER_KEY), 0), out, key)
    store(load(load(of, ANSWER_VALUE), 0), out, value)
    return out + 1


@kernel
def _ended(of: int, remembered: int, key_id: int) -> tuple[int, int, int]:
    """Return what a key keeps, now and before the epoch, and let it be so from now on."""
    now, was, status, plain, slot = NEVER, NEVER, 0, True, load32(load(remembered, trace.LISTS), KEY_WIDTH * key_id)
    while slot != 0:
        record = trace.record_of(remembered, slot)
        value, weight, before = load(record, VALUE), load(record, trace.WEIGHT), load(record, BEFORE)
        plain &= weight >= 0 and before >= 0
        now = min(now, value) if weight > 0 else now
        was = min(was, value) if before > 0 else was
        slot = load32(record, trace.AFTER)
    if not plain or load(of, LEAST) != 1:
        now, _, was, _, status = _weigh(of, remembered, key_id, NEVER)
    slot = load32(load(remembered, trace.LISTS), KEY_WIDTH * key_id)
    while slot != 0:
        record = trace.record_of(remembered, slot)
        following, weight = load32(record, trace.AFTER), load(record, trace.WEIGHT)
        store(record, BEFORE, weight)
        if weight == 0:
            trace.forget(remembered, slot)
        slot = following
    return now, was, status
