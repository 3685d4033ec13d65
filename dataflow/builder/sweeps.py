"""Sweeps: between feeds they free the texts and ids that no state holds; see kernels.groups.garbage."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Protocol

from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.text.pool import TextPool

MIN_SWEPT_NUMBERS = 1 << 15
"""Texts and ids in use below which no sweep runs. Not measured."""


@dataclass(frozen=True)
class TextStore:
    """The texts that the states of a program hold: their pool, its heap, and scratch for sweeps: a byte a slot."""

    block: int
    heap: int
    scratch: int

    def used(self) -> int:
        """Count the texts that have a number; some of them may be garbage."""
        return TextPool(self.block).used


class IdOwner(Protocol):
    """A state whose unused ids are freed by sweeps alone."""

    def used(self) -> int: ...


class Sweeper:
    """Frees unused texts and ids once there may be as many of them as of used ones."""

    def __init__(self) -> None:
        self.texts: TextStore | None = None
        """None until an operator keeps texts."""
        self.is_paused = False
        """Whether texts must keep their numbers, because a past time is held."""
        self._markers: list[tuple[object, Callable[[TextStore], object]]] = []
        self._owners: list[tuple[object, IdOwner, Callable[[], object]]] = []
        self.remaining = MIN_SWEPT_NUMBERS
        """The number of texts and ids that the last sweep has left."""

    def add_marker(self, part: object, mark: Callable[[TextStore], object]) -> None:
        """Add a function that marks the texts of a state, which belongs to a part of the program."""
        self._markers.append((part, mark))

    def add_owner(self, part: object, owner: IdOwner, free: Callable[[], object]) -> None:
        """Add a state with the function that frees its unused ids; it belongs to a part of the program."""
        self._owners.append((part, owner, free))

    def drop(self, parts: Container[object]) -> None:
        """Forget the states that belong to some parts of the program."""
        self._markers = [each for each in self._markers if each[0] not in parts]
        self._owners = [each for each in self._owners if each[0] not in parts]

    def sweep_if_due(self) -> None:
        """Sweep if texts and ids have doubled since the last sweep. No feed may be in progress."""
        if (self.texts is not None or self._owners) and self._used() > 2 * self.remaining:
            self.sweep()

    def sweep(self) -> None:
        """Free the texts and ids that no state holds. No feed may be in progress."""
        if self.is_paused:
            return
        for _, _, free in self._owners:
            free()
        if self.texts is not None:
            for _, mark in self._markers:
                mark(self.texts)
            garbage.sweep(TextPool(self.texts.block))
        self.remaining = max(self._used(), MIN_SWEPT_NUMBERS)

    def _used(self) -> int:
        return sum(owner.used() for _, owner, _ in self._owners) + (self.texts.used() if self.texts else 0)
