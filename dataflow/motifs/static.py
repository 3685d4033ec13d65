"""Motifs over relations that do not change: BiGJoin over the indexes that the engine keeps.

The rows of the first atom are extended by one variable after another, in batches whose size bounds what is held beside
the indexes, however many rows are found: see kernels.motifs.bigjoin. Workers count shares of these rows, over the same
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.codegen.program import nobody
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core.blocks import Operator
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.motif import Atom, check_types, extended, ordered, steps, with_projections
from deltamark.dataflow.motifs.bigjoin_run import Level, Run, Shown
from deltamark.dataflow.runtime.process_pool import Team
from deltamark.dataflow.runtime.worker import Shard

BATCH = 100_000
"""Proposals of a round."""

LOAD_ROWS = 1 << 14
"""Rows of a slice while relations are loaded: there are no times to tell apart."""

PIECES = 64
"""Ranges of the first atom's keys that a share is made of: one range may have much more to find than another."""

RULES = (vm.EXTEND, vm.CONSOLIDATE, vm.COLLECT)
"""Operators of delta queries that are not wanted here: the indexes that they would use are."""


def extensions(atoms: Sequence[Atom]) -> tuple[tuple[str, ...], list[Collection]]:
    """Return the variables of a motif, and the first atom's rows and what they are extended to, step by step."""
    simple = [each.simple() for each in atoms]
    check_types(simple)
    atoms = with_projections(simple)
    rows = atoms[0].rows()
    found = [extended(rows, atoms[0].variables[-1], [(atoms[0], "new")], None)]
    for new, now in steps(atoms, 0)[0]:
        rows = extended(rows, new, [(atoms[each], "new") for each in now], None)
        found.append(rows)
    return ordered(simple), found


@dataclass(frozen=True)
class Lists:
    """Rows that are not multiplied out: prefixes, and what each variable behind them may be, whatever the others are.

    prefixes: their variables, and last how often; sizes: how many values each variable behind has for each of them;
    values: those, one variable behind the other for one prefix behind the other, each with how often it is there.
    """

    prefixes: np.ndarray
    sizes: np.ndarray
    values: np.ndarray


class Static:
    """Indexes of relations as a motif needs them: load all rows, then count or list as often as you like.

    smaller: pairs of variables, the first of which must be smaller; workers: how many count.
    """

    def __init__(self, atoms: Sequence[Atom], smaller: Sequence[tuple[str, str]] = (), *, workers: int = 1) -> None:
        self.variables, found = extensions(atoms)
        compiled = compile_plans({f"rule {number}": each.node for number, each in enumerate(found)})
        self._program = compiled.program
        self._program.ops = [each for each in self._program.ops if Operator(each.block).opcode not in RULES]
        self._program.slice_rows = LOAD_ROWS
        self._shard = Shard(compiled)
        self._seed, *self._levels = [Level.of(each.node, compiled, smaller) for each in found]
        self._last: Run | None = None
        self._workers, self._worker = workers, 0
        self._team: Team | None = None
        self._board = 0
        """What each worker has taken: rounds, proposals, and prefixes at each level."""

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The relations, and the columns that are read from them."""
        return {name: aim.names for name, aim in self._shard.inputs.items()}

    def load(self, batches: Mapping[str, Batch]) -> None:
        """Index all rows of the relations."""
        self.load_parts([batches])

    def load_parts(self, parts: Iterable[Mapping[str, Batch]]) -> None:
        """Index all rows of the relations, some at a time."""
        self._dismiss()
        for batches in parts:
            self._shard.last = -1  # all parts are of one time
            self._shard.run(self._shard.checked(batches), nobody, drop=True)
        self._program.pack_indexes()

    def index_bytes(self) -> int:
        return sum(self._program.memory.resident(self._program.state_memory()).values())

    def index_rows(self) -> int:
        return self._shard.state_rows()

    @property
    def shown(self) -> Shown:
        """What the last run has taken."""
        if self._team is not None:
            told = view(self._board, self._workers * self._told).reshape(self._workers, -1)
            rounds, proposals = told[:, :2].sum(axis=0).tolist()
            return Shown(rounds, proposals, tuple(told[:, 2:].max(axis=0).tolist()))
        return self._last.shown() if self._last else Shown(0, 0, ())

    def held_bytes(self) -> int:
        """Count the memory that the last run has taken beside the indexes, of all workers."""
        if self._team is not None:
            return sum(self._team.together(None))
        return self._last.held_bytes() if self._last else 0

    def count(self, batch: int = BATCH) -> int:
        """Count the ways to give values to the variables."""
        if self._workers == 1:
            return self.count_share(0, 1, batch)
        if self._team is None:
            self._hire()
        assert self._team is not None
        return sum(self._team.together(batch))

    def count_share(self, share: int, shares: int, batch: int = BATCH) -> int:
        """Count a share of the ways: all shares together are all ways."""
        run = self._run(batch, self._tail())
        pieces = PIECES * shares if shares > 1 else 1
        listed = 0
        for piece in range(share, pieces, shares):
            run.keep(piece, pieces)
            listed += sum(int(rows[:, -1].sum()) for rows in run.parts())
        return run.block.total + listed

    def _hire(self) -> None:
        """Make the other workers: they have the indexes as they are."""
        memory = self._program.memory
        self._board = memory.share(self._workers * self._told)
        self._team = Team(self._workers, memory)
        self._team.start(self._become, self._carry_out)

    def _dismiss(self) -> None:
        if self._team is not None:
            self._team.close()
            self._team = None

    def _become(self, worker: int) -> None:
        self._worker = worker

    def _carry_out(self, batch: int | None) -> int:
        """Count this worker's share, or, without a batch, the memory that it has taken."""
        if batch is None:
            return self._last.held_bytes() if self._last else 0
        found = self.count_share(self._worker, self._workers, batch)
        assert self._last is not None
        shown = self._last.shown()
        view(self._board + 8 * self._told * self._worker, self._told)[:] = [shown.rounds, shown.proposals, *shown.most]
        return found

    @property
    def _told(self) -> int:
        """Words of the board that are a worker's."""
        return 2 + len(self._levels)

    def rows(self, batch: int = BATCH) -> Iterator[np.ndarray]:
        """List them, some at a time: values in the order of `variables`, and last how often."""
        run = self._run(batch, len(self._levels))
        columns = (self._levels or [self._seed])[-1].after
        order = [*(columns.index(each) for each in self.variables), len(columns)]
        for rows in run.parts():
            yield rows[:, order]

    @property
    def factors(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The variables of prefixes, and those that are lists behind them."""
        levels = self._levels[self._tail() :]
        prefix = levels[0].columns if levels else (self._levels or [self._seed])[-1].after
        return prefix, tuple(each.new for each in levels)

    def lists(self, batch: int = BATCH) -> Iterator[Lists]:
        """List them without multiplying out what does not depend on each other: see `factors`."""
        run = self._run(batch, self._tail())
        prefix, _ = self.factors
        for rows, values in run.factored():
            yield Lists(rows[:, : len(prefix) + 1], rows[:, len(prefix) + 1 :], values)

    def close(self) -> None:
        self._dismiss()
        self._last = None
        self._program.memory.close()

    def _run(self, batch: int, tail: int) -> Run:
        self._last = None  # its memory goes first
        self._last = Run(self._seed, self._levels, batch, tail)
        return self._last

    def _tail(self) -> int:
        """Return the first level from which on no variable depends on another one, and no condition on any."""
        for start, first in enumerate(self._levels):
            if all(each.is_free(set(first.columns)) for each in self._levels[start:]):
                return start
        return len(self._levels)
