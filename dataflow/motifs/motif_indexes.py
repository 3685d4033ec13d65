"""The indexes of a static motif, and the runs over them, on one or several workers.

The rows of the first atom are extended by one variable after another, in batches. The batch size bounds the memory
beside the indexes, independently of the number of matches: see kernels.motifs.bigjoin. Each worker counts a share of
the first atom's rows, over the same indexes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.motifs.extend import EXTEND
from deltamark.dataflow.kernels.motifs.index import SETTLE_INDEX, SettleIndexBlock, pack_index
from deltamark.dataflow.kernels.program import COLLECT
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.motifs.bigjoin_run import BigJoinRun, ExtensionStep, RunStatistics
from deltamark.dataflow.operators.consolidate import CONSOLIDATE
from deltamark.dataflow.operators.extend import Extend
from deltamark.dataflow.runtime.process_pool import ProcessPool
from deltamark.dataflow.runtime.worker import Worker

LOAD_ROWS = 1 << 14
"""Rows of a slice while relations are loaded, when all rows have one time. Not measured."""

RANGES_PER_SHARE = 64
"""Ranges of the first atom's keys in a share: many, because ranges differ in their number of matches. Not measured."""

DELTA_QUERY_STEPS = (EXTEND, CONSOLIDATE, COLLECT)
"""Operators of delta queries, which are dropped from the program: only the indexes that they use are kept."""


@dataclass(frozen=True)
class FactorizedRows:
    """Matches as products: prefixes, and for each prefix the independent values of the remaining variables.

    prefixes: the values of a prefix, and its multiplicity last; sizes: the number of values of each remaining variable,
    per prefix; values: pairs of a value and its multiplicity, ordered by prefix, then by variable.
    """

    prefixes: np.ndarray
    sizes: np.ndarray
    values: np.ndarray


class MotifIndexes:
    """The indexes of a motif's relations, and the last run over them. A new run, or a load, ends the run before.

    variables: in the order of the listed rows; found: the first atom's rows, and the rows after each extension.
    """

    def __init__(
        self, variables: Sequence[str], found: Sequence[Collection], smaller: Sequence[tuple[str, str]], workers: int
    ) -> None:
        self._variables = variables
        compiled = compile_plans({f"rule {number}": each.node for number, each in enumerate(found)})
        self._program = compiled.program
        self._program.ops = [each for each in self._program.ops if each.step not in DELTA_QUERY_STEPS]
        self._program.slice_rows = LOAD_ROWS
        self._worker = Worker(compiled)
        self._seed, *self._levels = [
            ExtensionStep.of(each.node, compiled, smaller) for each in found if isinstance(each.node, Extend)
        ]
        self._last: BigJoinRun | None = None
        self._workers, self._number = workers, 0
        self._pool: ProcessPool[int | None] | None = None
        self._board = 0
        """The statistics of each worker: rounds, proposals, and the most prefixes of each step."""

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        return self._worker.inputs

    def load_parts(self, parts: Iterable[Mapping[str, Batch]]) -> None:
        """Index all rows of the relations, part by part."""
        self._close_pool()
        self._end_run()
        for batches in parts:
            self._worker.last = -1  # all parts have the same time
            self._worker.push(batches)
        for op in self._program.ops:
            if op.step is SETTLE_INDEX:
                pack_index(self._program.memory, SettleIndexBlock(op.block))

    def index_bytes(self) -> int:
        """Count the bytes of the indexes."""
        return self._worker.state_bytes()

    def index_rows(self) -> int:
        """Count the rows of the indexes."""
        return self._worker.state_rows()

    @property
    def statistics(self) -> RunStatistics:
        """The cost of the last run, of all workers."""
        if self._pool is not None:
            lines = view(self._board, self._workers * self._line_words).reshape(self._workers, -1)
            rounds, proposals = lines[:, :2].sum(axis=0).tolist()
            return RunStatistics(rounds, proposals, tuple(lines[:, 2:].max(axis=0).tolist()))
        return self._last.statistics() if self._last else RunStatistics(0, 0, ())

    def held_bytes(self) -> int:
        """Count the bytes that the last run has used beside the indexes, of all workers."""
        if self._pool is not None:
            return sum(self._pool.run(None))
        return self._last.held_bytes() if self._last else 0

    def count(self, batch: int) -> int:
        """Count the matches: the assignments of values to the variables, with their multiplicities."""
        if self._workers == 1:
            return self.count_share(0, 1, batch)
        if self._pool is None:
            self._open_pool()
        assert self._pool is not None
        return sum(self._pool.run(batch))

    def count_share(self, share: int, shares: int, batch: int) -> int:
        """Count one of `shares` disjoint parts of the matches."""
        run = self._run(batch, self._tail())
        pieces = RANGES_PER_SHARE * shares if shares > 1 else 1
        listed = 0
        for piece in range(share, pieces, shares):
            run.keep(piece, pieces)
            listed += sum(int(rows[:, -1].sum()) for rows in run.parts())
        return run.block.total + listed

    def _open_pool(self) -> None:
        """Fork the other workers, which inherit the indexes."""
        memory = self._program.memory
        self._board = memory.share(self._workers * self._line_words)
        self._pool = ProcessPool(self._workers, self._program)
        self._pool.start(self._become, self._command)

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _become(self, worker: int) -> None:
        self._number = worker

    def _command(self, batch: int | None) -> int:
        """Count this worker's share of the matches, or, without a batch size, the bytes that it has used."""
        if batch is None:
            return self._last.held_bytes() if self._last else 0
        count = self.count_share(self._number, self._workers, batch)
        assert self._last is not None
        cost, words = self._last.statistics(), self._line_words
        view(self._board + 8 * words * self._number, words)[:] = [cost.rounds, cost.proposals, *cost.most]
        return count

    @property
    def _line_words(self) -> int:
        """Words of a worker's line on the board."""
        return 2 + len(self._levels)

    def rows(self, batch: int) -> Iterator[np.ndarray]:
        """Yield the matches in parts: values in the order of `variables`, and the multiplicity last."""
        run = self._run(batch, len(self._levels))
        columns = (self._levels or [self._seed])[-1].after
        order = [*(columns.index(each) for each in self._variables), len(columns)]
        for rows in run.parts():
            yield rows[:, order]

    @property
    def factors(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The variables of prefixes, and the remaining ones, whose values are lists."""
        levels = self._levels[self._tail() :]
        prefix = levels[0].columns if levels else (self._levels or [self._seed])[-1].after
        return prefix, tuple(each.new for each in levels)

    def factorized(self, batch: int) -> Iterator[FactorizedRows]:
        """Yield the matches as products of independent values: see `factors`."""
        run = self._run(batch, self._tail())
        prefix, _ = self.factors
        for rows, values in run.factorized():
            yield FactorizedRows(rows[:, : len(prefix) + 1], rows[:, len(prefix) + 1 :], values)

    def close(self) -> None:
        self._close_pool()
        self._end_run()
        self._worker.close()

    def _run(self, batch: int, tail: int) -> BigJoinRun:
        self._worker.refuse_after_failure()
        self._end_run()
        self._last = BigJoinRun(self._seed, self._levels, batch, tail)
        return self._last

    def _end_run(self) -> None:
        if self._last is not None:
            self._last.close()
            self._last = None

    def _tail(self) -> int:
        """Return the first step after which the variables depend neither on each other nor on conditions."""
        for start, first in enumerate(self._levels):
            if all(each.is_free(set(first.columns)) for each in self._levels[start:]):
                return start
        return len(self._levels)
