"""Functions that make texts, and functions of texts that are numbers or conditions.

A function reads the vectors of its arguments, of which a text has two: addresses and lengths. A text whose length is
negative is missing. A part of a text stays where the text lies. The other texts of a slice are made one behind another
in a heap of the operator, which the next slice overwrites: until then the pool has copied those that are kept.

A character is a code point of UTF-8, as in DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltamark.dataflow.kernels.core.blocks import Array, Array8, SizedOperator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import move
from deltamark.dataflow.kernels.core.steps import Step, step
from deltamark.dataflow.kernels.status import DONE, FAILED
from deltamark.dataflow.kernels.text.functions import equal_bytes, search, skip
from deltamark.dataflow.types import NULL

MOST = 1 << 61
"""A number of characters that no text has, and of which a sum fits into 64 bits."""

PERCENT, UNDERSCORE, MINUS, POINT, ZERO = (ord(character) for character in "%_-.0")

MAX_NUMBER_BYTES = 64
"""The bytes that are kept free for the text of a number or of a date."""


class CalledBlock(SizedOperator):
    """A function of texts whose values are numbers or conditions."""

    columns: Vectors
    """The arguments in order."""
    result: Vector


class AutomatonBlock(CalledBlock):
    """Tests whether an automaton accepts texts: see `plan.regular`."""

    table: Array
    """The next state for each state and byte. State 0 accepts all that follows, and 1 is the first one."""
    accepting: Array


class PartBlock(SizedOperator):
    """A function of texts whose values are parts of its first argument."""

    columns: Vectors
    start: Vector
    length: Vector


class MadeBlock(PartBlock):
    """A function whose values are new texts."""

    count: int
    """The number of arguments."""
    heap: int
    """The address of the texts of a slice."""
    room: int
    """The bytes of the heap."""
    letters: Array
    """For each code point the one that replaces it."""
    letter_count: int
    """The code points from this one on stay as they are."""


@inline
def _begins(byte: int) -> bool:
    """Return whether a byte is the first one of a character."""
    return byte & 0xC0 != 0x80


@kernel
def characters(start: int, length: int) -> int:
    """Count the characters of a text."""
    text, count = Array8(start), 0
    for at in range(length):
        count += 1 if _begins(text[at]) else 0
    return count


@kernel
def text_length(op: CalledBlock) -> None:
    """Count the characters of texts."""
    starts, lengths, result = op.columns[0], op.columns[1], op.result
    for at in range(op.size):
        result[at] = characters(starts[at], lengths[at])


@kernel
def text_bytes(op: CalledBlock) -> None:
    """Count the bytes of texts."""
    lengths, result = op.columns[1], op.result
    for at in range(op.size):
        result[at] = max(lengths[at], 0)


@kernel
def text_position(op: CalledBlock) -> None:
    """Find the first character of the first occurrence of pieces in texts, which counts from 1; 0 without one."""
    starts, lengths, pieces, sizes, result = op.columns[0], op.columns[1], op.columns[2], op.columns[3], op.result
    for at in range(op.size):
        start, length, size = starts[at], lengths[at], sizes[at]
        found = search(start, start + length, pieces[at], size) if length >= 0 and size >= 0 else 0
        result[at] = characters(start, found - size - start) + 1 if found != 0 else 0


@kernel
def text_like(op: CalledBlock) -> None:
    """Test texts for patterns; the last argument is the byte that escapes a character of a pattern, or -1."""
    columns, result = op.columns, op.result
    starts, lengths, patterns, sizes, escapes = columns[0], columns[1], columns[2], columns[3], columns[4]
    for at in range(op.size):
        is_known = lengths[at] >= 0 and sizes[at] >= 0
        result[at] = 1 if is_known and _is_like(starts[at], lengths[at], patterns[at], sizes[at], escapes[at]) else 0


@kernel
def _is_like(start: int, length: int, pattern_start: int, size: int, escape: int) -> bool:
    """Match a text with a pattern. After a mismatch the last % takes one more character."""
    text, pattern, place, at, behind, taken = Array8(start), Array8(pattern_start), 0, 0, -1, 0
    while place < length:
        if at < size:
            wanted = pattern[at]
            if wanted == escape and at + 1 < size:
                if text[place] == pattern[at + 1]:
                    place, at = place + 1, at + 2
                    continue
            elif wanted == PERCENT:
                at += 1
                behind, taken = at, place
                continue
            elif wanted == UNDERSCORE:
                place, at = skip(start + place, start + length, 1) - start, at + 1
                continue
            elif wanted == text[place]:
                place, at = place + 1, at + 1
                continue
        if behind < 0:
            return False
        taken = skip(start + taken, start + length, 1) - start
        place, at = taken, behind
    while at < size and pattern[at] == PERCENT:
        at += 1
    return at == size


@kernel
def text_accepted(op: AutomatonBlock) -> None:
    """Run an automaton over the bytes of texts."""
    starts, lengths, result, table, accepting = op.columns[0], op.columns[1], op.result, op.table, op.accepting
    for at in range(op.size):
        text, length, place, state = Array8(starts[at]), lengths[at], 0, 1
        while place < length and state != 0:
            state = table[state << 8 | text[place]]
            place += 1
        result[at] = accepting[state] if length >= 0 else 0


@kernel
def text_substring(op: PartBlock) -> None:
    """Cut a number of characters out of texts, from a place on; see `_window`."""
    columns, out, out_lengths = op.columns, op.start, op.length
    starts, lengths, firsts, counts = columns[0], columns[1], columns[2], columns[3]
    for at in range(op.size):
        first, count = min(max(firsts[at], -MOST), MOST), min(max(counts[at], -MOST), MOST)
        place, size = _window(starts[at], lengths[at], first, count)
        out[at] = place
        out_lengths[at] = size


@kernel
def _window(start: int, length: int, first: int, count: int) -> tuple[int, int]:
    """Return the part of a text from a place on, which counts from 1, or backwards from the end if it is negative.

    A negative count takes the characters before the place. What lies outside of the text is left out.
    """
    if length <= 0:
        return start, length
    low = first - 1 if first >= 0 else characters(start, length) + first
    high = low + count
    if count < 0:
        low, high = high, low
    low = max(low, 0)
    if high <= low:
        return start, 0
    place = skip(start, start + length, low)
    return place, skip(place, start + length, high - low) - place


@kernel
def text_trim_start(op: PartBlock) -> None:
    """Remove the first characters of texts as long as they are among some others."""
    columns, out, out_lengths = op.columns, op.start, op.length
    starts, lengths, sets, sizes = columns[0], columns[1], columns[2], columns[3]
    for at in range(op.size):
        place, length = starts[at], lengths[at]
        end = place + length
        while place < end:
            following = skip(place, end, 1)
            if not _has(sets[at], sizes[at], place, following - place):
                break
            place = following
        out[at] = place
        out_lengths[at] = end - place if length >= 0 and sizes[at] >= 0 else -1


@kernel
def text_trim_end(op: PartBlock) -> None:
    """Remove the last characters of texts as long as they are among some others."""
    columns, out, out_lengths = op.columns, op.start, op.length
    starts, lengths, sets, sizes = columns[0], columns[1], columns[2], columns[3]
    for at in range(op.size):
        start, length = starts[at], lengths[at]
        text, end = Array8(start), length
        while end > 0:
            last = end - 1
            while last > 0 and not _begins(text[last]):
                last -= 1
            if not _has(sets[at], sizes[at], start + last, end - last):
                break
            end = last
        out[at] = start
        out_lengths[at] = end if sizes[at] >= 0 else -1


@kernel
def _has(start: int, length: int, character: int, size: int) -> bool:
    """Return whether a text contains a character, whose address and number of bytes are given."""
    place, end = start, start + length
    while place < end:
        following = skip(place, end, 1)
        if following - place == size and equal_bytes(place, character, size):
            return True
        place = following
    return False


@kernel
def text_part(op: PartBlock) -> None:
    """Find the part of texts with a number between separators. A number that no part has gives no text."""
    columns, out, out_lengths = op.columns, op.start, op.length
    starts, lengths, separators, sizes, numbers = columns[0], columns[1], columns[2], columns[3], columns[4]
    for at in range(op.size):
        start, length, separator, size, number = starts[at], lengths[at], separators[at], sizes[at], numbers[at]
        part = -1
        if length >= 0 and size >= 0:
            if number < 0:
                number += _count_parts(start, start + length, separator, size) + 1
            start, part = _part(start, start + length, separator, size, number)
        out[at] = start
        out_lengths[at] = part


@inline
def _next_part(place: int, end: int, separator: int, size: int) -> int:
    """Return the address of the next part, or 0 if this one is the last. Without a separator each has a character."""
    if size > 0:
        return search(place, end, separator, size)
    following = skip(place, end, 1)
    return following if following < end else 0


@kernel
def _count_parts(place: int, end: int, separator: int, size: int) -> int:
    count = 0
    while place != 0:
        place = _next_part(place, end, separator, size)
        count += 1
    return count


@kernel
def _part(place: int, end: int, separator: int, size: int, number: int) -> tuple[int, int]:
    """Return the part with a number, which counts from 1, and its length: -1 if there is none."""
    while number >= 1:
        following = _next_part(place, end, separator, size)
        if number == 1:
            return place, (following - size if following != 0 else end) - place
        if following == 0:
            break
        place, number = following, number - 1
    return end, -1


@inline
def _append(place: int, start: int, length: int) -> int:
    """Copy bytes to a place of the heap; return the address behind them."""
    if length > 0:
        move(place, start, length)
        place += length
    return place


@kernel
def text_concat(op: MadeBlock) -> int:
    """Write texts one behind another; a text that is missing makes the whole missing."""
    columns, count, out, out_lengths = op.columns, op.count, op.start, op.length
    place, end = op.heap, op.heap + op.room
    for at in range(op.size):
        start, length = place, 0
        for part in range(count):
            size = columns[2 * part + 1][at]
            length = length + size if length >= 0 and size >= 0 else -1
        if length > end - place:
            return FAILED
        for part in range(count if length > 0 else 0):
            place = _append(place, columns[2 * part][at], columns[2 * part + 1][at])
        out[at] = start
        out_lengths[at] = length
    return DONE


@kernel
def text_joined(op: MadeBlock) -> int:
    """Write the texts that are not missing one behind another, with a separator between them, the first argument."""
    columns, count, out, out_lengths = op.columns, op.count, op.start, op.length
    place, end = op.heap, op.heap + op.room
    for at in range(op.size):
        start, size, length = place, columns[1][at], 0
        for part in range(1, count):
            length += max(columns[2 * part + 1][at], 0) + max(size, 0)
        if length > end - place:
            return FAILED
        is_first = True
        for part in range(1, count if size >= 0 else 0):
            if columns[2 * part + 1][at] < 0:
                continue
            if not is_first:
                place = _append(place, columns[0][at], size)
            is_first = False
            place = _append(place, columns[2 * part][at], columns[2 * part + 1][at])
        out[at] = start
        out_lengths[at] = place - start if size >= 0 else -1
    return DONE


@kernel
def text_cased(op: MadeBlock) -> int:
    """Replace each character of texts by its capital or its small letter. A letter may have more bytes then."""
    columns, out, out_lengths, letters, known = op.columns, op.start, op.length, op.letters, op.letter_count
    starts, lengths, place, end = columns[0], columns[1], op.heap, op.heap + op.room
    for at in range(op.size):
        start, length, first = starts[at], lengths[at], place
        if 2 * length > end - place:
            return FAILED
        read, stop = start, start + length
        while read < stop:
            code, read = _code_point(read, stop)
            place = _encode(place, letters[code] if code < known else code)
        out[at] = first
        out_lengths[at] = place - first if length >= 0 else -1
    return DONE


@kernel
def _code_point(start: int, end: int) -> tuple[int, int]:
    """Return the character at an address, and the address behind it."""
    text, following = Array8(start), skip(start, end, 1)
    size, code = following - start, text[0]
    if size > 1:
        code &= (1 << (7 - size)) - 1
    for at in range(1, size):
        code = code << 6 | (text[at] & 0x3F)
    return code, following


@kernel
def _encode(start: int, code: int) -> int:
    """Write a character in UTF-8; return the address behind it."""
    text = Array8(start)
    if code < 0x80:
        text[0] = code
        return start + 1
    size = 2 if code < 0x800 else 3 if code < 0x10000 else 4
    for at in range(size - 1, 0, -1):
        text[at] = 0x80 | (code & 0x3F)
        code >>= 6
    text[0] = ((0xF00 >> size) & 0xFF) | code
    return start + size


@kernel
def text_replaced(op: MadeBlock) -> int:
    """Replace each occurrence of a piece in texts by another text."""
    columns, out, out_lengths = op.columns, op.start, op.length
    place, end = op.heap, op.heap + op.room
    for at in range(op.size):
        start, length, piece, size = columns[0][at], columns[1][at], columns[2][at], columns[3][at]
        other, other_size, first = columns[4][at], columns[5][at], place
        if length < 0 or size < 0 or other_size < 0:
            length = -1
        elif size > 0:
            stop = start + length
            grown = length + _occurrences(start, stop, piece, size) * (other_size - size)
            if max(grown, length) > end - place:
                return FAILED
            found = search(start, stop, piece, size)
            while found != 0:
                place = _append(place, start, found - size - start)
                place = _append(place, other, other_size)
                start = found
                found = search(start, stop, piece, size)
            place = _append(place, start, stop - start)
            start, length = first, place - first
        out[at] = start
        out_lengths[at] = length
    return DONE


@kernel
def _occurrences(place: int, end: int, piece: int, size: int) -> int:
    count, place = 0, search(place, end, piece, size)
    while place != 0:
        count, place = count + 1, search(place, end, piece, size)
    return count


@kernel
def text_padding(op: MadeBlock) -> int:
    """Repeat the characters of a padding until texts would have a number of characters with them."""
    columns, out, out_lengths = op.columns, op.start, op.length
    place, end = op.heap, op.heap + op.room
    for at in range(op.size):
        length, wanted, padding, size = columns[1][at], columns[2][at], columns[3][at], columns[4][at]
        missing, cycle, first = wanted - characters(columns[0][at], length), characters(padding, size), place
        if missing > 0 and cycle > 0 and length >= 0:
            rest = skip(padding, padding + size, missing % cycle) - padding
            if missing > end - place or missing // cycle * size + rest > end - place:
                return FAILED
            for _ in range(missing // cycle):
                place = _append(place, padding, size)
            place = _append(place, padding, rest)
        out[at] = first
        out_lengths[at] = place - first if length >= 0 and size >= 0 else -1
    return DONE


@kernel
def text_of_number(op: MadeBlock) -> int:
    """Write decimals. The arguments are the number, its decimal places, and the least digits before the point."""
    columns, out, out_lengths = op.columns, op.start, op.length
    place, end = op.heap, op.heap + op.room
    for at in range(op.size):
        number, scale, whole, first = columns[0][at], columns[1][at], columns[2][at], place
        if end - place < MAX_NUMBER_BYTES:
            return FAILED
        if number < 0 and number != NULL:
            Array8(place)[0] = MINUS
            place += 1
            number = -number
        if number != NULL:
            digits = max(_digits(number), scale + whole)
            if scale > 0:
                fraction = 1
                for _ in range(scale):
                    fraction *= 10
                place = _write(place, number // fraction, digits - scale)
                Array8(place)[0] = POINT
                place = _write(place + 1, number % fraction, scale)
            else:
                place = _write(place, number, digits)
        out[at] = first
        out_lengths[at] = place - first if number != NULL else -1
    return DONE


@inline
def _digits(number: int) -> int:
    """Count the digits of a number; 0 has none."""
    count = 0
    while number > 0:
        number //= 10
        count += 1
    return count


@kernel
def _write(place: int, number: int, digits: int) -> int:
    """Write the last digits of a number; return the address behind them."""
    text = Array8(place)
    for at in range(digits - 1, -1, -1):
        text[at] = ZERO + number % 10
        number //= 10
    return place + digits


@kernel
def text_of_day(op: MadeBlock) -> int:
    """Write days since 1970-01-01 as dates of the years 1 to 9999."""
    columns, out, out_lengths = op.columns, op.start, op.length
    days, place, end = columns[0], op.heap, op.heap + op.room
    for at in range(op.size):
        if end - place < MAX_NUMBER_BYTES:
            return FAILED
        out[at] = place
        out_lengths[at] = -1
        if days[at] != NULL:
            year, month, day = _civil(days[at])
            place = _write(place, year, 4)
            Array8(place)[0] = MINUS
            place = _write(place + 1, month, 2)
            Array8(place)[0] = MINUS
            place = _write(place + 1, day, 2)
            out_lengths[at] = place - out[at]
    return DONE


@kernel
def _civil(days: int) -> tuple[int, int, int]:
    """Return the year, the month and the day of a day since 1970-01-01."""
    days += 719468  # since 1 March of the year 0: years that begin in March end with the leap day
    era, of_era = days // 146097, days % 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + 400 * era + (1 if month <= 2 else 0), month, day


@kernel
def text_of_short(op: MadeBlock) -> int:
    """Write packed texts."""
    columns, out, out_lengths = op.columns, op.start, op.length
    packed, place, end = columns[0], op.heap, op.heap + op.room
    for at in range(op.size):
        if end - place < MAX_NUMBER_BYTES:
            return FAILED
        content, text, is_missing = packed[at] >> 3, Array8(place), packed[at] == NULL
        size = 0 if is_missing else packed[at] & 7
        for byte in range(size):
            text[byte] = (content >> (48 - 8 * byte)) & 0xFF
        out[at] = place
        out_lengths[at] = -1 if is_missing else size
        place += size
    return DONE


LENGTH, BYTES, POSITION, LIKE = step(text_length), step(text_bytes), step(text_position), step(text_like)
ACCEPTED = step(text_accepted)
PARTIAL, TRIM_START, TRIM_END, PART = step(text_substring), step(text_trim_start), step(text_trim_end), step(text_part)
CONCAT, JOINED, CASED, REPLACED = step(text_concat), step(text_joined), step(text_cased), step(text_replaced)
PADDING, OF_NUMBER = step(text_padding), step(text_of_number)
OF_DAY, OF_SHORT = step(text_of_day), step(text_of_short)

CALLS: Mapping[str, Step] = {
    "length": LENGTH, "strlen": BYTES, "position": POSITION, "like": LIKE, "substring": PARTIAL, "ltrim": TRIM_START,
    "rtrim": TRIM_END, "split_part": PART, "concat": CONCAT, "concat_ws": JOINED, "upper": CASED, "lower": CASED,
    "replace": REPLACED, "padding": PADDING, "number": OF_NUMBER, "date": OF_DAY, "short": OF_SHORT,
}  # fmt: skip
"""The steps of functions, by the names of terms."""
