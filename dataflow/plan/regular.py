"""Regular expressions as automata over the bytes of texts, for the syntax that RE2 and DuckDB share.

A text matches if a part of it does. `automaton` parses an expression into a tree, makes of it an automaton with several
next states, and of this one with a single next state for each byte, which kernels follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Literal, TypeAlias

from deltamark.dataflow.plan.letters import cased
from deltamark.errors import DeltamarkError

MOST_STATES = 1000
"""The states of an automaton, each of which has a table of 256 words."""

MOST_NODES = 20_000
"""The places of an expression that is written out, such as one with `{100}`."""

LAST_CODE_POINT = 0x10FFFF
MATCHED, BEGIN = 0, 1
"""The states in which a part of the text has matched, and before the text."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points, as ranges in order that include both ends."""


@dataclass(frozen=True)
class Automaton:
    """The next state for each state and byte, and whether a text that ends in a state matches."""

    table: Sequence[int]
    accepting: Sequence[int]

    def matches(self, text: str) -> bool:
        """Return whether a part of a text matches."""
        state = BEGIN
        for byte in text.encode():
            state = self.table[state << 8 | byte]
        return bool(self.accepting[state])


@dataclass(frozen=True)
class _Set:
    """One of some characters."""

    ranges: Ranges


@dataclass(frozen=True)
class _Edge:
    """The beginning or the end of the text."""

    which: Literal["^", "$"]


@dataclass(frozen=True)
class _Sequence:
    """Several expressions one behind another."""

    parts: tuple[_Tree, ...]


@dataclass(frozen=True)
class _Choice:
    """One of several expressions."""

    parts: tuple[_Tree, ...]


@dataclass(frozen=True)
class _Repeat:
    """An expression several times. most: None for any number."""

    part: _Tree
    least: int
    most: int | None


_Tree: TypeAlias = _Set | _Edge | _Sequence | _Choice | _Repeat

DIGITS: Ranges = ((48, 57),)
WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACE: Ranges = ((9, 10), (12, 13), (32, 32))
CLASSES = {"d": DIGITS, "w": WORD, "s": SPACE}
CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
COUNT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
FLAGS = re.compile(r"\(\?([is]+)\)")
GROUP = re.compile(r"\((?:\?:|\?P?<\w+>|(?!\?))")
CODE = re.compile(r"\\x(?:\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{2}))")


def _unsupported(construct: str) -> DeltamarkError:
    return DeltamarkError("this part of a regular expression", construct, "write it in another way")


def _inverse(ranges: Ranges) -> Ranges:
    """Return all other characters."""
    found, start = [], 0
    for low, high in ranges:
        if start < low:
            found.append((start, low - 1))
        start = high + 1
    return (*found, (start, LAST_CODE_POINT)) if start <= LAST_CODE_POINT else tuple(found)


def _united(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the characters of several ranges in order."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return tuple(found)


@cache
def _cases() -> tuple[tuple[int, int], ...]:
    """Return the pairs of letters that differ only in their case."""
    return tuple(
        (code, other) for case in (cased("upper"), cased("lower")) for code, other in enumerate(case) if other != code
    )


def _any_case(ranges: Ranges) -> Ranges:
    """Add the letters that differ from some characters only in their case."""
    while True:
        added = [
            (new, new)
            for pair in _cases()
            for old, new in (pair, pair[::-1])
            if _has(ranges, old) and not _has(ranges, new)
        ]
        if not added:
            return ranges
        ranges = _united([*ranges, *added])


def _has(ranges: Ranges, code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)


class _Parser:
    """Parses an expression."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._flags = ""
        if (flags := FLAGS.match(text)) is not None:
            self._flags, self._at = flags[1], flags.end()

    def parsed(self) -> _Tree:
        tree = self._choice()
        if self._at < len(self._text):
            raise _unsupported(f"a parenthesis that closes no group: {self._text}")
        return tree

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _choice(self) -> _Tree:
        parts = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            parts.append(self._sequence())
        return _Choice(tuple(parts))

    def _sequence(self) -> _Tree:
        parts: list[_Tree] = []
        while self._next() not in ("", "|", ")"):
            part = self._atom()
            while (repeat := self._repeat()) is not None:
                part = _Repeat(part, *repeat)
            parts.append(part)
        return _Sequence(tuple(parts))

    def _repeat(self) -> tuple[int, int | None] | None:
        """Read how often a part occurs; None if it is not repeated. The lazy forms match the same texts."""
        counts: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        found = counts.get(self._next())
        if found is not None:
            self._at += 1
        elif (count := COUNT.match(self._text, self._at)) is not None:
            self._at, least = count.end(), int(count[1])
            found = least, (least if not count[2] else int(count[3]) if count[3] else None)
        else:
            return None
        if self._next() == "?":
            self._at += 1
        return found

    def _atom(self) -> _Tree:
        character = self._next()
        if character == "(":
            return self._group()
        if character in ("^", "$"):
            self._at += 1
            return _Edge("^" if character == "^" else "$")
        if character == ".":
            self._at += 1
            return _Set(_inverse(()) if "s" in self._flags else _inverse(((10, 10),)))
        return self._set(self._class() if character == "[" else self._character())

    def _set(self, ranges: Ranges) -> _Set:
        return _Set(_any_case(ranges) if "i" in self._flags else ranges)

    def _group(self) -> _Tree:
        begin = GROUP.match(self._text, self._at)
        if begin is None:
            raise _unsupported(f"a group that begins with {self._text[self._at : self._at + 3]}")
        self._at = begin.end()
        tree = self._choice()
        if self._next() != ")":
            raise _unsupported(f"a group that is not closed: {self._text}")
        self._at += 1
        return tree

    def _class(self) -> Ranges:
        """Read the characters in brackets."""
        self._at += 1
        is_inverse = self._next() == "^"
        self._at += is_inverse
        ranges: list[tuple[int, int]] = []
        is_first = True
        while is_first or self._next() != "]":
            if self._next() == "" or self._text.startswith("[:", self._at):
                raise _unsupported(f"such brackets: {self._text}")
            is_first = False
            ranges += self._member()
        self._at += 1
        united = _united(ranges)
        if is_inverse and "i" in self._flags:
            united = _any_case(united)
        return _inverse(united) if is_inverse else united

    def _member(self) -> Ranges:
        """Read a character, a range of characters or a class in brackets."""
        low = self._character()
        if self._next() != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return low
        self._at += 1
        high = self._character()
        if len(low) > 1 or len(high) > 1 or low[0][0] != low[0][1] or low[0][0] > high[0][1]:
            raise _unsupported(f"such a range in brackets: {self._text}")
        return ((low[0][0], high[0][1]),)

    def _character(self) -> Ranges:
        """Read a character, or a class of characters after a backslash."""
        if self._next() != "\\":
            self._at += 1
            return ((ord(self._text[self._at - 1]),) * 2,)
        if (code := CODE.match(self._text, self._at)) is not None:
            self._at = code.end()
            return ((int(code[1] or code[2], 16),) * 2,)
        escaped = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if escaped.lower() in CLASSES:
            ranges = CLASSES[escaped.lower()]
            return ranges if escaped.islower() else _inverse(ranges)
        if escaped in CONTROLS:
            return ((ord(CONTROLS[escaped]),) * 2,)
        if not escaped or not escaped.isascii() or escaped.isalnum():
            raise _unsupported(f"\\{escaped}")
        return ((ord(escaped),) * 2,)


def _byte_ranges(low: int, high: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the sequences of ranges of bytes that are the characters of a range in UTF-8."""
    for last in (0x7F, 0x7FF, 0xFFFF):
        if low <= last < high:
            yield from _byte_ranges(low, last)
            yield from _byte_ranges(last + 1, high)
            return
    for bits in (6, 12, 18):
        mask = (1 << bits) - 1
        if high > 0x7F and low & ~mask != high & ~mask:
            if low & mask:
                yield from _byte_ranges(low, low | mask)
                yield from _byte_ranges((low | mask) + 1, high)
                return
            if high & mask != mask:
                yield from _byte_ranges(low, (high & ~mask) - 1)
                yield from _byte_ranges(high & ~mask, high)
                return
    yield list(zip(_encoded(low), _encoded(high), strict=True))


def _encoded(code: int) -> bytes:
    return chr(code).encode("utf-8", "surrogatepass")


@dataclass
class _Nodes:
    """An automaton with several next states: byte ranges, moves without a byte, and moves at an edge of the text."""

    bytes: list[list[tuple[int, int, int]]] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=list)
    edges: list[list[tuple[str, int]]] = field(default_factory=list)

    def new(self) -> int:
        if len(self.free) == MOST_NODES:
            raise _unsupported("an expression that is too long when it is written out")
        for each in (self.bytes, self.free, self.edges):
            each.append([])
        return len(self.free) - 1

    def add(self, tree: _Tree, start: int) -> int:
        """Add an expression that begins at a node; return the node at its end."""
        match tree:
            case _Set(ranges):
                end = self.new()
                for low, high in ranges:
                    for sequence in _byte_ranges(low, high):
                        self._add_bytes(sequence, start, end)
                return end
            case _Edge(which):
                end = self.new()
                self.edges[start].append((which, end))
                return end
            case _Sequence(parts):
                for part in parts:
                    start = self.add(part, start)
                return start
            case _Choice(parts):
                end = self.new()
                for part in parts:
                    first = self.new()
                    self.free[start].append(first)
                    self.free[self.add(part, first)].append(end)
                return end
            case _Repeat(part, least, most):
                return self._add_repeated(part, least, most, start)

    def _add_bytes(self, sequence: Sequence[tuple[int, int]], start: int, end: int) -> None:
        for at, (low, high) in enumerate(sequence):
            target = end if at == len(sequence) - 1 else self.new()
            self.bytes[start].append((low, high, target))
            start = target

    def _add_repeated(self, part: _Tree, least: int, most: int | None, start: int) -> int:
        for _ in range(least):
            start = self.add(part, start)
        end = self.new()
        self.free[start].append(end)
        if most is None:
            again = self.new()
            self.free[start].append(again)
            last = self.add(part, again)
            self.free[last] += [again, end]
        for _ in range((most or 0) - least):
            first = self.new()
            self.free[start].append(first)
            start = self.add(part, first)
            self.free[start].append(end)
        return end

    def reached(self, nodes: Iterable[int], edges: str) -> frozenset[int]:
        """Return the nodes that are reached without a byte, at some edges of the text."""
        left, seen = list(nodes), set(nodes)
        while left:
            node = left.pop()
            following = [*self.free[node], *(target for which, target in self.edges[node] if which in edges)]
            new = [each for each in following if each not in seen]
            seen.update(new)
            left += new
        return frozenset(seen)


@cache
def automaton(expression: str) -> Automaton:
    """Return the automaton of an expression; flags such as `(?i)` may stand at its beginning."""
    nodes = _Nodes()
    start = nodes.new()
    end = nodes.add(_Parser(expression).parsed(), start)
    begin, anywhere = nodes.reached([start], "^"), nodes.reached([start], "")
    borders = sorted({0, 256, *(each for moves in nodes.bytes for low, high, _ in moves for each in (low, high + 1))})
    matched = frozenset([end])
    if end in begin:
        return Automaton([MATCHED] * 512, [1, 1])
    numbers: dict[frozenset[int], int] = {matched: MATCHED}
    table, accepting, waiting = [MATCHED] * 256, [1], [begin]
    for number, state in enumerate(waiting, BEGIN):
        accepting.append(int(end in nodes.reached(state, "^$" if number == BEGIN else "$")))
        for low, stop in pairwise(borders):
            targets = {target for node in state for first, last, target in nodes.bytes[node] if first <= low <= last}
            following = nodes.reached(targets, "") | anywhere
            following = matched if end in following else following
            if following not in numbers:
                if len(waiting) == MOST_STATES:
                    raise _unsupported(f"an expression with more than {MOST_STATES} states: {expression}")
                waiting.append(following)
                numbers[following] = BEGIN + len(waiting) - 1
            table += [numbers[following]] * (stop - low)
    return Automaton(table, accepting)
