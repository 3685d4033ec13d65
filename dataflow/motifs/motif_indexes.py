"""The indexes of a static motif, and the BiGJoin runs over them, on one or several workers.

The rows of the first atom are extended by one variable after another, in batches. The batch size bounds the memory
beside the indexes, independently of the number of matches: see kernels.motifs.bigjoin. Each worker counts a share of
the first atom's rows, over the same indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.kernels.core.blocks import Array, kernel_type
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, Memory, view
from deltamark.dataflow.kernels.core.unlocked import Unlocked
from deltamark.dataflow.kernels.hashing.hash_map import id_limit
from deltamark.dataflow.kernels.motifs import bigjoin
from deltamark.dataflow.kernels.motifs import index as index_kernel
from deltamark.dataflow.kernels.motifs import layout as kernel
from deltamark.dataflow.kernels.motifs.extend import EXTEND
from deltamark.dataflow.kernels.motifs.index import SETTLE_INDEX, SettleIndexBlock, pack_index
from deltamark.dataflow.kernels.motifs.layout import BigJoin, KeyColumn, Prefix, PrefixLevel, StaticExtender
from deltamark.dataflow.kernels.program import COLLECT
from deltamark.dataflow.kernels.status import FAILED, NEEDS_ROOM
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.consolidate import CONSOLIDATE
from deltamark.dataflow.operators.errors import wide_weight
from deltamark.dataflow.operators.extend import Extend
from deltamark.dataflow.operators.index import Index, Indexed
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.runtime.threads import Threads
from deltamark.dataflow.runtime.worker import Worker
from deltamark.dataflow.types import FOREVER, key_range
from deltamark.errors import DeltamarkError

MAX_STAMPS = 1 << 28
"""Numbers with a stamp of 4 bytes each, which speed up the intersection of lists. Not measured."""


@dataclass(frozen=True)
class RunStatistics:
    """The cost of a run on all workers. most: for each step the most prefixes that it held at one worker."""

    rounds: int
    proposals: int
    most: tuple[int, ...]


@dataclass(frozen=True)
class ExtensionStep:
    """Extends prefixes by one variable: the indexes that propose or check values, and the pairs that must be ordered.

    parts: columns of the prefix that are a key, and the index of values by that key.
    """

    columns: tuple[str, ...]
    new: str
    parts: tuple[tuple[tuple[str, ...], Index], ...]
    smaller: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, node: Extend, compiled: Compiled, smaller: Sequence[tuple[str, str]]) -> ExtensionStep:
        """Return the step of an extend node."""
        columns, new = node.rows.schema.names, node.column
        found = [(each.row_keys, _index(compiled, each.rows, each.keys, each.value)) for each in node.indexes]
        known = {*columns, new}
        return cls(columns, new, tuple(found), tuple(each for each in smaller if new in each and set(each) <= known))

    @property
    def after(self) -> tuple[str, ...]:
        return self.columns if self.new in self.columns else (*self.columns, self.new)

    def is_free(self, known: set[str]) -> bool:
        """Return whether the values depend only on known columns."""
        return self.new not in self.columns and not self.smaller and all(set(mine) <= known for mine, _ in self.parts)

    @property
    def filters(self) -> list[int]:
        return [self.after.index(name) for pair in self.smaller for name in pair]


def _index(compiled: Compiled, of: Node, keys: tuple[str, ...], value: str) -> Index:
    """Return the compiled index of a node's rows."""
    for part, states in compiled.states().items():
        role = getattr(part, "role", None)
        if isinstance(role, Indexed) and getattr(part, "node", None) is of and (role.keys, role.value) == (keys, value):
            return next(each for each in states if isinstance(each, Index))
    raise AssertionError(keys)


class BigJoinRun:
    """One run of all steps: the blocks of kernels.motifs.layout, in memory of its own."""

    def __init__(
        self, seed: ExtensionStep, levels: Sequence[ExtensionStep], batch: int, tail: int,
        kernel: Callable[[BigJoin], int] = bigjoin.run,
    ) -> None:  # fmt: skip
        if batch < 1:
            raise DeltamarkError("no such batch size", batch, "give at least 1")
        self._memory, self._kernel = Memory(), kernel
        self._levels, self._batch = levels, batch
        self._width = len((levels or [seed])[-1].after) + 1
        (_, of) = seed.parts[0]
        self._keys = id_limit(index_kernel.IndexBlock(of.block).keys)
        stamps = max(each.numbers() for level in levels for _, each in level.parts) if levels else 0
        reserve = self._memory.reserve
        table = self._table([word for each in levels for word in self._level(each)])
        words = BigJoin.words(
            batch=batch, level_count=len(levels), levels=table, tail=tail, seed=self._parts(seed),
            seed_filter_count=len(seed.smaller), seed_filters=self._table(seed.filters), seed_stop=self._keys,
            out=reserve(2 * batch * self._width), row=reserve(self._width),
            stamps=self._memory.reserve_whole(stamps // 2 + 1) if stamps <= MAX_STAMPS else 0,
            buffer=reserve(UNBOUNDED_WORDS), spare_buffer=reserve(UNBOUNDED_WORDS), result=reserve(UNBOUNDED_WORDS),
        )  # fmt: skip
        self._block: BigJoin | None = BigJoin(self._table(words))

    @property
    def block(self) -> BigJoin:
        """The block of the run, which every use of its memory goes through."""
        if self._block is None:
            remedy = "finish the iteration before the next call, or open another motif"
            raise DeltamarkError("the iteration was ended", "a later call has loaded rows, or begun a run", remedy)
        return self._block

    def close(self) -> None:
        """End the run, and release its memory."""
        self._block = None
        self._memory.close()

    def keep(self, part: int, parts: int) -> None:
        """Restrict the run to the first atom's rows in one of `parts` ranges of keys."""
        self.block.seed_key_id = self._keys * part // parts
        self.block.seed_stop = self._keys * (part + 1) // parts

    def parts(self) -> Iterator[np.ndarray]:
        """Run; yield the listed rows whenever the output block is full."""
        status = NEEDS_ROOM
        while status == NEEDS_ROOM:
            status = self._kernel(self.block)
            if status == FAILED:
                raise self._problem()
            rows = view(self.block.out.address, self.block.out_count * self._width)
            yield rows.reshape(-1, self._width).copy()
            self.block.out_count = 0

    def factorized(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Run; yield the listed prefixes, with the values of the remaining variables."""
        self.block.values = Array(self._memory.reserve(UNBOUNDED_WORDS))
        for rows in self.parts():
            values = view(self.block.values.address, 2 * self.block.value_count).reshape(-1, 2).copy()
            self.block.value_count = 0
            yield rows, values

    def statistics(self) -> RunStatistics:
        levels = self.block.levels
        most = [
            PrefixLevel(levels[kernel.LEVEL_WORDS * number :].address).most_held for number in range(len(self._levels))
        ]
        return RunStatistics(self.block.rounds, self.block.proposals, tuple(most))

    def held_bytes(self) -> int:
        """Count the bytes of memory beside the indexes."""
        return sum(self._memory.resident(self._memory.reservations()).values())

    def _problem(self) -> DeltamarkError:
        if self.block.error == kernel.OVERFLOW:
            return wide_weight()
        raise AssertionError("a level held more than two batches of prefixes")

    def _table(self, words: Sequence[int]) -> int:
        address = self._memory.reserve(max(len(words), 1))
        view(address, len(words))[:] = words
        return address

    def _level(self, level: ExtensionStep) -> list[int]:
        columns = len(level.columns)
        return PrefixLevel.words(
            prefixes=self._memory.reserve(2 * self._batch * (Prefix.size_in_words + columns)), columns=columns,
            extender_count=len(level.parts), extenders=self._parts(level),
            bound=level.columns.index(level.new) if level.new in level.columns else -1,
            filter_count=len(level.smaller), filters=self._table(level.filters),
        )  # fmt: skip

    def _parts(self, level: ExtensionStep) -> int:
        words: list[int] = []
        for mine, of in level.parts:
            if len(mine) > kernel.MAX_KEY_COLUMNS:
                remedy = f"use at most {kernel.MAX_KEY_COLUMNS}"
                raise DeltamarkError("a key of too many columns", ", ".join(mine), remedy)
            index = index_kernel.IndexBlock(of.block)
            extender = StaticExtender.words(
                index=index.address, pool=index.pool.address, width=index.width, key_columns=len(mine)
            )
            ranges = [(0, FOREVER)] if len(mine) == 1 else key_range(of.of.types)
            for name, (low, radix) in zip(mine, ranges, strict=True):
                extender += KeyColumn.words(column=level.columns.index(name), low=low, radix=radix)
            words += [*extender, *[0] * (kernel.EXTENDER_WORDS - len(extender))]
        return self._table(words)


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
        self._runs: list[BigJoinRun] = []
        """The last run, a part of it for each worker that has counted."""
        self._threads = Threads(workers)

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        return self._worker.inputs

    def load_parts(self, parts: Iterable[Mapping[str, Batch]]) -> None:
        """Index all rows of the relations, part by part."""
        self._end_run()
        for batches in parts:
            self._worker.last = -1  # all parts have the same time
            pointers = self._worker.checked(batches)
            with self._worker.failing(), self._worker.bound(pointers, drop=True):
                self._worker.execute_program()
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
        costs = [each.statistics() for each in self._runs]
        most = zip(*(each.most for each in costs), strict=True)
        return RunStatistics(
            sum(each.rounds for each in costs), sum(each.proposals for each in costs), tuple(map(max, most))
        )

    def held_bytes(self) -> int:
        """Count the bytes that the last run has used beside the indexes, of all workers."""
        return sum(each.held_bytes() for each in self._runs)

    def count(self, batch: int) -> int:
        """Count the matches: the assignments of values to the variables, with their multiplicities."""
        shares = self._threads.count
        if shares == 1:
            return self.count_share(0, 1, batch)
        unlocked = Unlocked(bigjoin.run, kernel_type(BigJoin))
        self._begin(batch, self._tail(), [lambda block: unlocked(block.address)] * shares)
        return sum(self._threads.run(lambda share: self._counted(self._runs[share], share, shares)))

    def count_share(self, share: int, shares: int, batch: int) -> int:
        """Count one of `shares` disjoint parts of the matches."""
        return self._counted(self._run(batch, self._tail()), share, shares)

    def _counted(self, run: BigJoinRun, share: int, shares: int) -> int:
        pieces = RANGES_PER_SHARE * shares if shares > 1 else 1
        listed = 0
        for piece in range(share, pieces, shares):
            run.keep(piece, pieces)
            listed += sum(int(rows[:, -1].sum()) for rows in run.parts())
        return run.block.total + listed

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
        self._threads.close()
        self._end_run()
        self._worker.close()

    def _run(self, batch: int, tail: int) -> BigJoinRun:
        self._begin(batch, tail, [bigjoin.run])
        return self._runs[0]

    def _begin(self, batch: int, tail: int, kernels: Sequence[Callable[[BigJoin], int]]) -> None:
        """Begin a run, with a part for each of some kernels."""
        self._worker.refuse_after_failure()
        self._end_run()
        for each in kernels:
            self._runs.append(BigJoinRun(self._seed, self._levels, batch, tail, each))

    def _end_run(self) -> None:
        while self._runs:
            self._runs.pop().close()

    def _tail(self) -> int:
        """Return the first step after which the variables depend neither on each other nor on conditions."""
        for start, first in enumerate(self._levels):
            if all(each.is_free(set(first.columns)) for each in self._levels[start:]):
                return start
        return len(self._levels)
