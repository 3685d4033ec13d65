"""Decisions of random generators: each is a number below a size, drawn from a seed, from hypothesis, or from a list.

A generator without another source of randomness can be repeated from its numbers, and its example becomes smaller if
some of them are left out: zero is always the simplest choice, and an exhausted list continues with zeros.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

Choice = TypeVar("Choice")

MOST_ROUNDS = 8
"""The most rounds of a repetition under hypothesis, which is slow if an example has many choices."""


class Choices:
    """A source of decisions; sources of randomness differ only in `place`."""

    def place(self, size: int) -> int:
        """Return a number in range(size)."""
        raise NotImplementedError

    @contextmanager
    def part(self) -> Iterator[None]:
        """Mark the numbers that are drawn inside as a part, which may be left out."""
        yield

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return choices[self.place(len(choices))]

    def picks(self, choices: Sequence[Choice], least: int = 0, most: int = 99) -> list[Choice]:
        """Pick some of the choices, each place at most once."""
        left = list(choices)
        count = least + self.place(min(most, len(left)) - least + 1)
        return [left.pop(self.place(len(left))) for _ in range(count)]

    def whole(self, low: int, high: int) -> int:
        """Return an integer; the simplest is the one nearest to zero."""
        origin = min(max(low, 0), high)
        place = self.place(high - low + 1)
        return origin + place if place <= high - origin else high - place

    def chance(self, percent: int) -> bool:
        return self.place(100) >= 100 - percent

    def some(self, most: int, percent: int = 80) -> Iterator[None]:
        """Yield up to `most` times; each round is a part, and may be left out to make an example smaller."""
        for _ in range(most):
            with self.part():
                if not self.chance(percent):
                    return
                yield

    def shuffled(self, items: Sequence[Choice]) -> list[Choice]:
        found = list(items)
        for last in range(len(found) - 1, 0, -1):
            other = last - self.place(last + 1)
            found[last], found[other] = found[other], found[last]
        return found


class Recorded(Choices):
    """A source that records its numbers, and the bounds of the parts among them."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.parts: list[tuple[int, int]] = []

    @contextmanager
    def part(self) -> Iterator[None]:
        start = len(self.numbers)
        try:
            yield
        finally:
            self.parts.append((start, len(self.numbers)))


class Seeded(Recorded):
    """A source that draws numbers from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def place(self, size: int) -> int:
        number = int(self._random.random() * size) if size < 1 << 50 else self._random.randrange(size)
        self.numbers.append(number)
        return number


class Replayed(Recorded):
    """A source that repeats the numbers of a list, each lowered to the largest that fits, and then zeros."""

    def __init__(self, given: Sequence[int]) -> None:
        super().__init__()
        self._given = given

    def place(self, size: int) -> int:
        at = len(self.numbers)
        number = min(self._given[at], size - 1) if at < len(self._given) else 0
        self.numbers.append(number)
        return number


class Drawn(Choices):
    """A source that draws numbers from hypothesis."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def place(self, size: int) -> int:
        return self._draw(_places(size)) if size > 1 else 0

    def some(self, most: int, percent: int = 80) -> Iterator[None]:  # noqa: ARG002
        """Yield many times rather than few: hypothesis draws zero from a range more often than other numbers."""
        rounds = min(most, MOST_ROUNDS)
        return iter([None] * (rounds - self.place(rounds + 1)))


@cache
def _places(size: int) -> Any:
    """Return a strategy from a cache: building one takes longer than drawing from it."""
    from hypothesis import strategies as st  # noqa: PLC0415 (only tests under hypothesis have to load it)

    return st.integers(0, size - 1)
