"""Idle operators: an operator is idle if it has no rows, no open time and an empty output.

Each has a few words that are all 0 then, which its step declares. Most operators are idle in a slice of one row; the
interpreter tests their words, and skips them without a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from deltamark.dataflow.kernels.core.steps import Step
from deltamark.dataflow.kernels.program import IDLE_WORDS


class HasStep(Protocol):
    """The part of an operator that the table needs."""

    @property
    def step(self) -> Step: ...
    @property
    def block(self) -> int: ...


IdleTable: TypeAlias = Callable[[Sequence[HasStep], int], list[int]]
"""Returns the words of an `IdleBlock` for each operator, given the address of a word that is never 0."""


def idle_table(ops: Sequence[HasStep], never: int) -> list[int]:
    """Return an `IdleBlock` for each operator. Consecutive operators with the same words are skipped together."""
    entries, skipped, after = list[list[int]](), 0, None
    for op in reversed(ops):
        words = op.step.idle_words(op.block)
        if not 0 < len(words) <= IDLE_WORDS:  # it runs in every slice
            words = (never,)
        skipped, after = skipped + 1 if words == after else 1, words
        entries.append([*words, *words[:1] * (IDLE_WORDS - len(words)), skipped])
    return [word for entry in reversed(entries) for word in entry]


def never_idle(ops: Sequence[HasStep], never: int) -> list[int]:
    """Return the table with which no operator is skipped."""
    return [*[never] * IDLE_WORDS, 1] * len(ops)
