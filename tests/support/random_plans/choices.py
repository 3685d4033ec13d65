"""Decisions of random generators: each is a number below a size, drawn from a seed, from hypothesis, or from a list.

A generator that asks nobody else for randomness can be repeated from the numbers that it was given, and made smaller
by leaving some of them out: zero is always the simplest choice, and it is what an exhausted list gives.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

Choice = TypeVar("Choice")

MOST_ROUNDS = 8
"""How often something may be repeated under hypothesis, which is slow where an example has many choices."""


class Choices:
    """Makes decisions; `place` is the only one that differs between sources of randomness."""

    def place(self, size: int) -> int:
        """Return a number in range(size)."""
        raise NotImplementedError

    @contextmanager
    def part(self) -> Iterator[None]:
        """Mark what is drawn inside as something that may be left out."""
        yield

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return choices[self.place(len(choices))]

    def picks(self, choices: Sequence[Choice], least: int = 0, most: int = 99) -> list[Choice]:
        """Pick some, each place at most once."""
        left = list(choices)
        count = least + self.place(min(most, len(left)) - least + 1)
        return [left.pop(self.place(len(left))) for _ in range(count)]

    def whole(self, low: int, high: int) -> int:
        """Return a whole number, of which the one nearest to zero is the simplest."""
        origin = min(max(low, 0), high)
        place = self.place(high - low + 1)
        return origin + place if place <= high - origin else high - place

    def chance(self, percent: int) -> bool:
        return self.place(100) >= 100 - percent

    def some(self, most: int, percent: int = 80) -> Iterator[None]:
        """Go round up to `most` times; each round is a part, and so is left out where that makes an example smaller."""
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
    """Keeps the numbers that it gave, and which of them belong to which part."""

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
    """Draws numbers from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def place(self, size: int) -> int:
        number = int(self._random.random() * size) if size < 1 << 50 else self._random.randrange(size)
        self.numbers.append(number)
        return number


class Replayed(Recorded):
    """Gives the numbers of a list, then zeros. A number that is too large becomes the largest that fits."""

    def __init__(self, given: Sequence[int]) -> None:
        super().__init__()
        self._given = given

    def place(self, size: int) -> int:
        at = len(self.numbers)
        number = min(self._given[at], size - 1) if at < len(self._given) else 0
        self.numbers.append(number)
        return number


class Drawn(Choices):
    """Draws numbers from hypothesis."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def place(self, size: int) -> int:
        return self._draw(_places(size)) if size > 1 else 0

    def some(self, most: int, percent: int = 80) -> Iterator[None]:  # noqa: ARG002
        """Go round often rather than seldom: hypothesis draws zero from a range more often than other numbers."""
        rounds = min(most, MOST_ROUNDS)
        return iter([None] * (rounds - self.place(rounds + 1)))


@cache
def _places(size: int) -> Any:
    """Make a strategy once: that takes longer than to draw from it."""
    from hypothesis import strategies as st  # noqa: PLC0415 (only tests under hypothesis have to load it)

    return st.integers(0, size - 1)
