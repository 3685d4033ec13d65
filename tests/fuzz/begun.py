"""Workers whose arrangements begin in a state that small examples seldom reach."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import Literal

import numpy as np

from deltamark.dataflow.batch import Pointers
from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.kernels.arrangements import debts
from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.arrangements.lists import MIN_PASSED
from deltamark.dataflow.kernels.arrangements.slots import is_dead
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.runtime.worker import Worker
from fuzz.example import changed

Begin = Literal["", "long lists", "debts"]
"""The state of arrangements: an empty one, one whose lists are almost long in each feed, or one that has debts."""

WITHOUT_DEBTS: tuple[Begin, ...] = ("", "", "long lists", "long lists")
BEGINS: tuple[Begin, ...] = (*WITHOUT_DEBTS, "debts")

COUNTED_DEBTS = [debts.MIN_DEBTS - 1, 0, debts.MIN_DEBTS - 2] * 20
"""The debts of the first keys, in examples with debts."""

MAX_IDS = 1 << 16
"""The largest number of possible keys of an arrangement that begins with debts, which visits all of them."""

MOST_JOINS = 4
"""The most joins, one above another, of plans whose arrangements begin with debts. A join pairs the rows of a time that
are not consolidated yet, so each further join over the same rows may square their number."""


class Empty(Worker):
    """A worker that counts rows with their weights: two equal rows may be one row of weight 2 or two of weight 1."""

    def state_rows(self) -> int:
        blocks = self.states(Arrangement, _rows)
        return super().state_rows() + sum(abs(weight) - 1 for rows in blocks for weight in _weights(rows))


class Indebted(Worker):
    """A worker that counts no texts: rows that are kept because of debts keep theirs."""

    def state_rows(self) -> int:
        return sum(state.rows() for state in self._states())


class WithLongLists(Indebted):
    """A worker whose lists count as long within each feed, until a few rows have been found without a search."""

    def __init__(self, compiled: Compiled) -> None:
        super().__init__(compiled)
        self._more_passed = cycle(range(5))

    def run(self, pointers: Mapping[str, Pointers], *, drop: bool) -> dict[str, int]:
        for rows in self.states(Arrangement, _rows):
            rows.passed = MIN_PASSED + next(self._more_passed)
        return super().run(pointers, drop=drop)


class WithDebts(Indebted):
    def __init__(self, compiled: Compiled) -> None:
        super().__init__(compiled)
        self.states(Arrangement, begin_debts)


WORKERS: dict[Begin, type[Worker]] = {"": Empty, "long lists": WithLongLists, "debts": WithDebts}


@contextlib.contextmanager
def begun(begin: Begin) -> Iterator[None]:
    """Let the workers of new dataflows begin in a state."""
    with changed("deltamark.dataflow.runtime.live_plans", Worker=WORKERS[begin]):
        yield


def takes_debts(*plans: Collection) -> bool:
    """Return whether the arrangements of some plans may begin with debts."""
    joins: dict[Node, int] = {}
    for each in plans:
        for node in walk(each.node):
            joins[node] = max((joins[below] for below in node.inputs), default=0) + isinstance(node, Join)
    return max(joins.values()) <= MOST_JOINS


def begin_debts(arrangement: Arrangement) -> None:
    """Let an arrangement have debts; the lists of some keys are consolidated after their first one."""
    rows = ArrangementBlock(arrangement.block)
    ids = len(COUNTED_DEBTS) if rows.keys.hashed else rows.keys.high - rows.keys.low + 1
    if ids <= MAX_IDS and not rows.has_debts:
        debts.begin(rows)
        count = min(ids, len(COUNTED_DEBTS))
        view(rows.debts.address, count).view(np.int32)[::2] = COUNTED_DEBTS[:count]


def _rows(arrangement: Arrangement) -> ArrangementBlock:
    return ArrangementBlock(arrangement.block)


def _weights(rows: ArrangementBlock) -> Iterator[int]:
    """Yield the weights of the rows of an arrangement that stores weights."""
    if rows.weighted:
        yield from (rows.weight[slot] for slot in range(rows.top) if not is_dead(rows, slot))
