"""Direct keys: the rule that decides whether keys index an array directly, or by way of a hash map."""

from __future__ import annotations

import math

DIRECT_KEYS_PER_ROW, MIN_DIRECT_KEYS = 4, 1 << 16
"""Keys index an array directly while their range is at most DIRECT_KEYS_PER_ROW times the rows that may be live, plus
MIN_DIRECT_KEYS. Measured: 1 to 3 ns a row direct, 7 to 22 ns hashed."""

PAGED_KEYS_PER_ROW, MIN_PAGED_KEYS = 64, 1 << 20
"""Keys of a range from MIN_PAGED_KEYS up have ids in pages, for runs of keys, if they are probably few: if each key has
at most half a row per word of its state. So do keys of a range up to PAGED_KEYS_PER_ROW times the rows that is too
large for direct keys. Measured: state of q18 at SF 10 takes 2.6 GB instead of 4.4 GB, q07 takes 0.85 times as long; in
a window, seven queries take 0.77 times as long as hashed. Keys that are all used and come in no order are better
direct: q17 takes twice as long with pages. The two numbers are not measured."""

PAGED_KEYS_PER_EXPECTED_ROW = 8
"""Keys of such a range also have ids in pages if there are this many of them for each row that is expected: the rows
touch fewer pages of memory. Measured at SF 10: five queries need 0.54 to 0.77 times the memory; q12 at SF 1 takes 0.95
times as long, others 0.97 to 1.02. The number is not measured."""

MAX_DIRECT_KEYS = 1 << 33
"""A larger range is hashed, however many rows there are: address space is limited, too. State of several words a key
makes the range of direct keys as many times smaller."""


def is_direct(key_range: int, rows: int, state_words: int = 1, expected: float = math.inf) -> bool:
    """Return whether keys of a range index an array directly.

    rows: a bound on the live rows; expected: their expected number.
    """
    are_few = 2 * rows <= state_words * key_range or PAGED_KEYS_PER_EXPECTED_ROW * expected <= key_range
    if key_range >= MIN_PAGED_KEYS and are_few:
        return False
    return key_range < min(DIRECT_KEYS_PER_ROW * rows + MIN_DIRECT_KEYS, MAX_DIRECT_KEYS // state_words)


def is_paged(key_range: int, rows: int) -> bool:
    """Return whether keys of a range that is not direct have ids in pages."""
    return key_range < min(PAGED_KEYS_PER_ROW * rows, MAX_DIRECT_KEYS)
