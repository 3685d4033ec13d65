"""Kernels of texts against Python's bytes, str and re."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.kernel_blocks import Blocks
from support.reference.terms import text_call

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.status import FAILED, NEEDS_ROOM
from deltamark.dataflow.kernels.text import calls, functions, pool
from deltamark.dataflow.kernels.text import functions as byte_kernels
from deltamark.dataflow.kernels.text.functions import (
    InputTextsBlock,
    MatchBlock,
    SubstringBlock,
    TextFunctionBlock,
    TextPairBlock,
)
from deltamark.dataflow.kernels.text.pool import NumberedTextsBlock, NumberTextsBlock, TextPool
from deltamark.dataflow.plan.letters import cased
from deltamark.dataflow.plan.terms import TextCall
from deltamark.dataflow.types import NULL, TEXT, integer

STRINGS = st.one_of(
    st.text(max_size=30), st.text("ab%é", max_size=30), st.sampled_from(["", "\0", "aaaaaaaa", "aaaaaaaab", "b" * 600])
)
TEXTS = st.lists(STRINGS, max_size=12)
MISSING_TEXTS = st.lists(st.none() | STRINGS, max_size=12)
PIECES = st.lists(st.sampled_from(["", "a", "b", "ab", "ba", "é", "aaaaaaaa", "aaaaaaaaab"]), min_size=1, max_size=4)


class Texts:
    """Texts in a feed: their bytes in a row, and the cells of their addresses and lengths."""

    def __init__(self, blocks, texts):
        self._blocks, encoded = blocks, [b"" if text is None else text.encode() for text in texts]
        content, self.size = b"".join(encoded), blocks.cell(len(texts))
        self.base = self.store(content)
        self.offsets = np.cumsum([0, *map(len, encoded)])
        starts = (self.base + self.offsets[:-1]).tolist()
        without = [0 if text is None else start for text, start in zip(texts, starts, strict=True)]
        self.start = blocks.cell(blocks.words(without))  # a missing text that is numbered has no address
        lengths = [-1 if text is None else len(content) for text, content in zip(texts, encoded, strict=True)]
        self.length = blocks.cell(blocks.words(lengths))
        self.count = len(texts)

    def store(self, content):
        """Store bytes, and at least seven others behind them; return their address."""
        padded = content.ljust(-(-(len(content) + 7) // 8) * 8, b"\xff")
        return self._blocks.words(np.frombuffer(padded, np.int64).tolist())

    def run(self, kernel, kind, **fields):
        """Return the status of a function of the texts, and its result."""
        result = self._blocks.vector()
        fields |= {"size": self.size, "start": self.start, "length": self.length, "result": result}
        status = kernel(self._blocks.block(kind, **fields))
        return status, self._blocks.vector_values(result, self.count)


def strings_at(starts, lengths):
    """Return the texts at addresses, None for those of length -1."""
    pairs = zip(starts, lengths, strict=True)
    return [None if length == -1 else ctypes.string_at(start, length).decode() for start, length in pairs]


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_are_equal_if_all_are(a, b):
    texts = Texts(Blocks(), [])
    for one, other in ((a, b), (a, bytes(bytearray(a))), (a, b + a[len(b) :])):
        size = min(len(one), len(other))
        equal = byte_kernels.equal_bytes(texts.store(one), texts.store(other), size)
        assert equal == (one[:size] == other[:size])


@given(st.text("ab", max_size=40), st.text("ab", max_size=12), st.integers(0, 40))
def test_a_search_ends_behind_the_first_occurrence(text, piece, skipped):
    texts, skipped = Texts(Blocks(), []), min(skipped, len(text))
    start = texts.store(text.encode())
    found = byte_kernels.search(start + skipped, start + len(text), texts.store(piece.encode()), len(piece))
    place = text.find(piece, skipped)
    assert found == (0 if place < 0 else start + place + len(piece))


@given(st.binary(max_size=100), st.integers(0, 99), st.integers(1, 20), st.binary(max_size=2))
def test_a_part_of_any_bytes_is_found_where_it_is_first(text, start, size, more):
    texts = Texts(Blocks(), [])
    for piece in (text[start : start + size], text[start : start + size] + more):
        address = texts.store(text)
        found = byte_kernels.search(address, address + len(text), texts.store(piece), len(piece))
        place = text.find(piece)
        assert found == (0 if place < 0 else address + place + len(piece))


@given(MISSING_TEXTS, st.booleans(), st.data())
def test_the_texts_of_an_input_are_those_of_its_offsets(texts, selects, data):
    blocks = Blocks()
    feed, rows = Texts(blocks, texts), list(range(len(texts)))
    if selects:
        rows = sorted(data.draw(st.sets(st.sampled_from(rows)))) if rows else []
    offsets = feed.offsets.astype(np.int32).tobytes().ljust(4 * len(texts) + 8, b"\0")
    missing = bytes(text is None for text in texts)
    start, length = blocks.vector(), blocks.vector()
    words = (np.frombuffer(each[: len(each) // 8 * 8], np.int64).tolist() for each in (offsets, missing + bytes(8)))
    functions.input_texts(
        blocks.block(
            InputTextsBlock, size=blocks.cell(len(rows)), offsets=blocks.cell(blocks.words(next(words))),
            base=blocks.cell(feed.base), rows=blocks.cell(blocks.words(rows)) if selects else 0,
            missing=blocks.cell(blocks.words(next(words))), start=start, length=length,
        )
    )  # fmt: skip
    found = strings_at(*(blocks.vector_values(cell, len(rows)) for cell in (start, length)))
    assert found == [texts[row] for row in rows]


@settings(max_examples=200)
@given(MISSING_TEXTS, PIECES)
def test_a_match_is_that_of_a_regular_expression(texts, pieces):
    pattern = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL)
    texts = [*texts, "".join(pieces), "b".join(pieces), pieces[0][:-1] + pieces[-1]]
    blocks = Blocks()
    feed, encoded = Texts(blocks, texts), [piece.encode() for piece in pieces]
    table = blocks.words([word for piece in encoded for word in (feed.store(piece), len(piece))])
    _, result = feed.run(functions.match, MatchBlock, pieces=table, count=len(pieces))
    assert result == [int(text is not None and pattern.fullmatch(text) is not None) for text in texts]


@settings(max_examples=200)
@given(st.lists(st.tuples(STRINGS, STRINGS), max_size=12), STRINGS)
def test_texts_precede_others_as_their_bytes_do(pairs, common):
    pairs = [*pairs, *((common + one, common + other) for one, other in pairs)]
    blocks = Blocks()
    texts, others = (Texts(blocks, [pair[side] for pair in pairs]) for side in (0, 1))
    _, result = texts.run(functions.precedes, TextPairBlock, other_start=others.start, other_length=others.length)
    assert result == [int(one.encode() < other.encode()) for one, other in pairs]


def packed(content):
    """Return a short text as a number: seven bytes and the length."""
    return int.from_bytes(content.ljust(7, b"\0"), "big") << 3 | len(content)


@given(MISSING_TEXTS, st.integers(1, 9), st.integers(1, 7))
def test_a_substring_is_a_slice_of_characters(texts, first, count):
    parts = [(text or "")[first - 1 : first - 1 + count].encode() for text in texts]
    status, result = Texts(Blocks(), texts).run(functions.substring, SubstringBlock, first=first, count=count)
    if any(len(part) > 7 for part in parts):
        assert status == FAILED
    else:
        assert (status, result) == (0, [packed(part) for part in parts])


@given(MISSING_TEXTS)
def test_a_prefix_is_the_first_seven_bytes_in_the_order_of_texts(texts):
    _, result = Texts(Blocks(), texts).run(functions.prefix, TextFunctionBlock)
    encoded = [None if text is None else text.encode() for text in texts]
    assert result == [NULL if each is None else packed(each[:7]) >> 3 for each in encoded]
    present = sorted((content, number) for content, number in zip(encoded, result, strict=True) if content is not None)
    assert [number for _, number in present] == sorted(number for _, number in present)


@given(TEXTS)
def test_equal_texts_have_one_hash_wherever_they_lie(texts):
    _, first = Texts(Blocks(), texts).run(functions.hashes, TextFunctionBlock)
    _, second = Texts(Blocks(), ["x", *texts]).run(functions.hashes, TextFunctionBlock)
    assert first == second[1:]
    assert all(0 <= each < 2**31 for each in first)
    assert len(set(first)) == len(set(texts))


NUMBERS = st.lists(st.integers(-12, 12) | st.sampled_from([2**31, -(2**31), 2**62]), min_size=12, max_size=12)
CALLED = {
    "length": "t", "strlen": "t", "position": "tt", "substring": "tnn", "ltrim": "tt", "rtrim": "tt", "concat": "ttt",
    "concat_ws": "ttt", "replace": "ttt", "split_part": "ttn", "upper": "t", "lower": "t",
}  # fmt: skip
"""For each function whether its arguments are texts or numbers."""


class Called:
    """The arguments of a function of texts, and its block."""

    def __init__(self, name, columns):
        self.blocks, cells = Blocks(), []
        for column in columns:
            if all(isinstance(each, int) for each in column):
                cells.append(self.blocks.cell(self.blocks.words(column)))
            else:
                texts = Texts(self.blocks, column)
                cells += [texts.start, texts.length]
        self.step, self.size = calls.CALLS[name], len(columns[0])
        letters = cased(name) if name in ("upper", "lower") else ()
        self.fields = {
            "size": self.blocks.cell(self.size), "columns": self.blocks.words(cells), "result": self.blocks.vector(),
            "start": self.blocks.vector(), "length": self.blocks.vector(), "count": len(columns),
            "heap": self.blocks.room(), "room": 1 << 20, "letters": self.blocks.words(letters),
            "letter_count": len(letters),
        }  # fmt: skip

    def run(self, **changed):
        """Return the status, and the values as Python has them."""
        known = {name: each for name, each in (self.fields | changed).items() if name in self.step.block.fields}
        status = self.step.kernel(self.blocks.block(self.step.block, **known))
        if "result" in known:
            return status, self.blocks.vector_values(known["result"], self.size)
        start, length = (self.blocks.vector_values(known[each], self.size) for each in ("start", "length"))
        return status, strings_at(start, length)


@pytest.mark.parametrize("name", CALLED)
@given(data=st.data())
def test_a_function_of_texts_is_that_of_python(name, data):
    strings = st.none() | st.text("ab,", max_size=9) | STRINGS
    rows = data.draw(st.lists(st.tuples(*[strings] * 3), min_size=1, max_size=12))
    numbers = [data.draw(NUMBERS)[: len(rows)] for _ in range(2)]
    remaining = {"t": iter(zip(*rows, strict=True)), "n": iter(numbers)}
    columns = [next(remaining[kind]) for kind in CALLED[name]]
    _, found = Called(name, columns).run()
    for value, arguments in zip(found, zip(*columns, strict=True), strict=True):
        known = [NULL if each is None else each for each in arguments]
        type_ = TEXT if "start" in calls.CALLS[name].block.fields else integer(0, 9)
        wanted = text_call(TextCall(name, (), type_), *known)
        assert value == (None if wanted == NULL else wanted)


def test_texts_that_do_not_fit_are_an_error():
    tested = Called("concat", [["a" * 600, "b"], ["c", "d" * 600]])
    assert tested.run(room=1300) == (0, ["a" * 600 + "c", "b" + "d" * 600])
    assert tested.run(room=1200)[0] == FAILED


class Pool:
    """A pool of texts, and a dictionary of their numbers."""

    def __init__(self):
        self.blocks = blocks = Blocks()
        self.block = blocks.block(
            TextPool, table=blocks.words([0] * 4), mask=3, free=blocks.room(), starts=blocks.room(),
            lengths=blocks.room(), heap=blocks.memory.reserve(1 << 16), holes=blocks.words([0] * pool.SIZES),
            marks=blocks.room(),
        )  # fmt: skip
        self.known = {}

    def number(self, texts):
        """Return the numbers of texts."""
        feed = Texts(self.blocks, texts)
        while 2 * (self.block.used + len(texts)) > self.block.mask + 1:
            status, _ = feed.run(pool.number_texts, NumberTextsBlock, pool=self.block.address)
            assert status == NEEDS_ROOM
            entries = 2 * (self.block.mask + 1)
            pool.rehash(self.block, Array(self.blocks.words([0] * entries)), entries - 1)
        status, numbers = feed.run(pool.number_texts, NumberTextsBlock, pool=self.block.address)
        assert status == 0
        for text, number in zip(texts, numbers, strict=True):
            assert number == (NULL if text is None else self.known.setdefault(text, number))
        return numbers

    def texts(self, numbers):
        """Return the texts of numbers."""
        blocks, size = self.blocks, len(numbers)
        start, length = blocks.vector(), blocks.vector()
        pool.numbered_texts(
            blocks.block(
                NumberedTextsBlock, size=blocks.cell(size), pool=self.block.address,
                numbers=blocks.cell(blocks.words(numbers)), start=start, length=length,
            )
        )  # fmt: skip
        return strings_at(blocks.vector_values(start, size), blocks.vector_values(length, size))

    def sweep(self, kept):
        """Free all texts but some."""
        for text in kept:
            self.block.marks[self.known[text]] = 1
        garbage.sweep(self.block)
        self.known = {text: self.known[text] for text in kept}

    def check(self):
        assert self.block.used == len(self.known) == len(set(self.known.values()))
        assert self.texts(list(self.known.values())) == list(self.known)
        assert self.block.next_number == self.block.used + self.block.freed
        assert not view(self.block.marks.address, self.block.next_number).any()


@given(st.lists(MISSING_TEXTS, max_size=4), st.data())
def test_equal_texts_have_one_number_until_a_sweep_frees_them(feeds, data):
    tested = Pool()
    for texts in feeds:
        assert tested.texts(tested.number(texts)) == texts
        tested.check()
        if tested.known and data.draw(st.booleans()):
            tested.sweep(data.draw(st.sets(st.sampled_from(sorted(tested.known)))))
            tested.check()


@pytest.mark.parametrize("size", [0, 1, 8, 9, 511, 512, 513, 1025, 3000])
def test_numbers_and_bytes_of_freed_texts_are_used_again(size):
    tested = Pool()
    tested.number(["kept", *(letter * size for letter in "abc")])
    heap, numbers = tested.block.heap, tested.block.next_number
    for letters in ("def", "ghi"):
        tested.sweep(["kept"])
        tested.number([letter * size for letter in letters])
        tested.check()
    assert (tested.block.heap, tested.block.next_number) == (heap, numbers)


@given(st.lists(STRINGS, min_size=1, max_size=8, unique=True))
def test_texts_are_in_the_order_of_their_bytes_and_complements_in_reverse(texts):
    tested = Pool()
    numbers = tested.number(texts)
    for a, first in zip(texts, numbers, strict=True):
        for b, second in zip(texts, numbers, strict=True):
            assert pool.precedes(tested.block, first, second) == (a.encode() < b.encode())
            assert pool.precedes(tested.block, -1 - first, -1 - second) == (a.encode() > b.encode())
