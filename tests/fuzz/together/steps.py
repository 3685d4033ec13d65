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
    """Whether the history of inputs is passed even if arrangements have it."""


@dataclass(frozen=True)
class Visit(Attach):
    """The attachment of a plan that is retired at once: no row of it may be left."""


@dataclass(frozen=True)
class Since(Attach):
    hold: int


@dataclass(frozen=True)
class AttachIncrementally(Attach):
    fuel: int


@dataclass(frozen=True)
class VisitIncrementally(AttachIncrementally):
    """The attachment of a plan that is retired after some feeds, whether it is complete or not."""

    feeds: int


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


@dataclass(frozen=True)
class BeginDebts:
    """Let all arrangements have debts from now on."""


@dataclass(frozen=True)
class OpenAndClose:
    """Another dataflow, of one plan, that is fed some times and closed. Its handles stay."""

    plan: int
    times: Sequence[int]
    fuel: int
    """The fuel of a plan that is pending when it is closed; 0 for none."""


@dataclass(frozen=True)
class UseClosed:
    """A use of all closed handles."""

    use: str


@dataclass(frozen=True)
class Collect:
    """A garbage collection."""


Step = BeginDebts | Feed | Attach | Retire | TakeHold | Advance | Release | OpenAndClose | UseClosed | Collect
