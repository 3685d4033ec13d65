"""The steps of a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Feed:
    times: Sequence[int] = ()


@dataclass(frozen=True)
class Attach:
    name: str
    plan: int
    given: bool
    """Is the history of inputs given even if arrangements have it?"""


@dataclass(frozen=True)
class Visit(Attach):
    """Attach a plan and retire it at once: nothing may be left of it."""


@dataclass(frozen=True)
class Since(Attach):
    hold: int


@dataclass(frozen=True)
class AttachIncrementally(Attach):
    fuel: int


@dataclass(frozen=True)
class Retire:
    name: str


@dataclass(frozen=True)
class TakeHold:
    hold: int


@dataclass(frozen=True)
class Advance:
    hold: int
    time: int


@dataclass(frozen=True)
class Release:
    hold: int


Step = Feed | Attach | Retire | TakeHold | Advance | Release
