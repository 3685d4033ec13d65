"""A simulation of BiGJoin over virtual shards, which counts motifs of static relations and the load of each shard.

It shows the balance of a distributed run, and is slow; dataflow.motifs.static counts motifs fast. rounds.py has the
rounds, partitioning_schemes.py the distribution of indexes and work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Literal, get_args

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.motif import Atom
from deltamark.dataflow.motifs.static import extensions
from deltamark.dataflow.operators.extend import Extend
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.suites.graphs.load_simulation.partitioning_schemes import (
    BalancedPartitioning,
    PartitioningScheme,
    PrefixPartitioning,
)
from deltamark.harness.suites.graphs.load_simulation.rounds import ExtensionLevel, LevelIndex, ShardedRun
from deltamark.harness.suites.graphs.load_simulation.sorted_index import SortedIndex

Algorithm = Literal["bigjoin", "bigjoin-s"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
SCHEMES: Mapping[Algorithm, type[PartitioningScheme]] = {
    "bigjoin": PrefixPartitioning,
    "bigjoin-s": BalancedPartitioning,
}

BATCH = 1000
"""Proposals of a shard per round. With w shards the bounds of BiGJoin-S hold from w * max(w, log(IN * MaxOut)) on."""

MAX_SHARDS = 1 << 10


class ShardedMotif:
    """The indexes of a motif: load all rows, then run either algorithm any number of times.

    smaller: pairs of variables, the first of which must be smaller.
    """

    def __init__(self, atoms: Sequence[Atom], smaller: Sequence[tuple[str, str]] = ()) -> None:
        self.variables, found = extensions(atoms)
        self._plans, self._smaller = [each.node for each in found if isinstance(each.node, Extend)], smaller
        self._index_keys = {(index.rows, index.keys, index.value) for plan in self._plans for index in plan.indexes}
        self._indexes: dict[tuple[int, tuple[str, ...], str], SortedIndex] = {}
        self._values = np.zeros(0, np.int64)

    @property
    def indexes(self) -> int:
        """The number of indexes, each of all rows of a relation."""
        return len(self._index_keys)

    def load(self, batches: Mapping[str, Batch]) -> None:
        """Number the values of the relations, and index their rows."""
        rows = {of: _rows(of, batches) for of, _, _ in self._index_keys}
        columns = [column for each in rows.values() for column in each.columns.values()]
        self._values = np.unique(np.concatenate(columns))
        for of, keys, value in self._index_keys:
            codes = {name: np.searchsorted(self._values, column) for name, column in rows[of].columns.items()}
            index = SortedIndex([codes[each] for each in keys], codes[value], rows[of].diff, max(len(self._values), 1))
            self._indexes[id(of), keys, value] = index

    def run(self, algorithm: Algorithm, *, shards: int, batch: int = BATCH) -> ShardedRun:
        """Prepare a run."""
        if algorithm not in SCHEMES:
            raise unknown("algorithm", algorithm, SCHEMES)
        if not 1 <= shards <= MAX_SHARDS or batch < 1:
            next_step = f"give 1 to {MAX_SHARDS} shards, and batches of at least 1"
            raise DeltamarkError("no such shards", f"{shards}, batches of {batch}", next_step)
        seed, *levels = [self._level(each) for each in self._plans]
        scheme = SCHEMES[algorithm](shards, len(levels))
        for each in self._indexes.values():
            scheme.store(each)
        order = [(levels or [seed])[-1].after.index(each) for each in self.variables]
        return ShardedRun(scheme, seed, levels, batch=batch, order=order, values=self._values)

    def _level(self, plan: Extend) -> ExtensionLevel:
        columns, new = plan.rows.schema.names, plan.column
        found = [
            LevelIndex(tuple(map(columns.index, each.row_keys)), self._indexes[id(each.rows), each.keys, each.value])
            for each in plan.indexes
        ]
        after = columns if new in columns else (*columns, new)
        smaller = [
            (after.index(small), after.index(large))
            for small, large in self._smaller
            if new in (small, large) and {small, large} <= set(after)
        ]
        return ExtensionLevel(after, columns.index(new) if new in columns else -1, found, smaller)


def _rows(of: Node, batches: Mapping[str, Batch]) -> Batch:
    """Compute a relation without duplicate rows."""
    with closing(Dataflow(Collection(of))) as worker:
        found = worker.feed({
            name: Batch(np.zeros_like(each.time), each.diff, each.columns)
            for name, each in batches.items()
            if name in worker.inputs
        })  # fmt: skip
    if (found.diff < 0).any():
        row = [int(column[found.diff.argmin()]) for column in found.columns.values() if isinstance(column, np.ndarray)]
        raise DeltamarkError("a negative multiplicity", row, "retract only what was inserted before")
    return found
