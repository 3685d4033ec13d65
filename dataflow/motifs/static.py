"""Static motifs: find all matches of a motif in relations that do not change, by BiGJoin.

Statistics of maintained motifs: see dataflow.language.motif.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.kernels.core.memory import Uncopied
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.motif import Atom, check_types, extended, ordered, steps, with_projections
from deltamark.dataflow.motifs.motif_indexes import FactorizedRows, MotifIndexes, RunStatistics
from deltamark.dataflow.operators.extend import ExtendCounts
from deltamark.dataflow.runtime.exclusive import Exclusive

StateT = TypeVar("StateT")
ReadT = TypeVar("ReadT")


class HasStates(Protocol):
    """A dataflow, or a worker of one."""

    def states(self, kind: type[StateT], read: Callable[[StateT], ReadT], /) -> list[ReadT]: ...


def proposals(dataflow: HasStates) -> int:
    """Count the values that were proposed as extensions of rows.

    >>> triangle = [Atom(edges, ("a", "b")), Atom(edges, ("b", "c")), Atom(edges, ("c", "a"))]
    >>> with Dataflow(delta_query(triangle).count()) as dataflow:
    ...     dataflow.push({"edges": Batch([0] * 3, [1] * 3, {"src": [1, 2, 3], "dst": [2, 3, 1]})})
    ...     proposals(dataflow)
    1
    3
    """
    return sum(dataflow.states(ExtendCounts, ExtendCounts.proposals))


BATCH_PROPOSALS = 100_000
"""Default number of proposals of a round. Not measured."""


def extensions(atoms: Sequence[Atom]) -> tuple[tuple[str, ...], list[Collection]]:
    """Return the variables of a motif, the first atom's rows, and the rows after each extension by one variable."""
    simple = [each.simple() for each in atoms]
    check_types(simple)
    atoms = with_projections(simple)
    rows = atoms[0].rows()
    found = [extended(rows, atoms[0].variables[-1], [(atoms[0], "new")], None)]
    for new, now in steps(atoms, 0)[0]:
        rows = extended(rows, new, [(atoms[each], "new") for each in now], None)
        found.append(rows)
    return ordered(simple), found


class StaticMotif(Uncopied):
    """Counts or lists the matches of a motif in relations that are loaded once.

    It is no Dataflow: there are no times and no changes of an answer, matches are counted without being materialized,
    and the memory beside the indexes is bounded by the batch size. Use `delta_query` with a Dataflow to maintain a
    motif while its relations change.

    smaller: pairs of variables, the first of which must be smaller; workers: the number of threads that count.

    >>> triangle = [Atom(edges, ("a", "b")), Atom(edges, ("b", "c")), Atom(edges, ("c", "a"))]
    >>> with closing(StaticMotif(triangle)) as motif:
    ...     motif.load({"edges": Batch([0] * 4, [1] * 4, {"src": [1, 2, 3, 3], "dst": [2, 3, 1, 4]})})
    ...     motif.count()
    3
    """

    def __init__(self, atoms: Sequence[Atom], smaller: Sequence[tuple[str, str]] = (), *, workers: int = 1) -> None:
        self.variables, found = extensions(atoms)
        self._indexes = Exclusive("motif", MotifIndexes(self.variables, found, smaller, workers))

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The relations that must be loaded, and the columns that are read of each."""
        return self._indexes.use(lambda indexes: indexes.inputs)

    def load(self, batches: Mapping[str, Batch]) -> None:
        """Index all rows of the relations."""
        self.load_parts([batches])

    def load_parts(self, parts: Iterable[Mapping[str, Batch]]) -> None:
        """Index all rows of the relations, part by part."""
        self._indexes.use(lambda indexes: indexes.load_parts(parts))

    def index_bytes(self) -> int:
        """Count the bytes of the indexes."""
        return self._indexes.use(lambda indexes: indexes.index_bytes())

    def index_rows(self) -> int:
        """Count the rows of the indexes."""
        return self._indexes.use(lambda indexes: indexes.index_rows())

    @property
    def statistics(self) -> RunStatistics:
        """The cost of the last run since the load, of all workers."""
        return self._indexes.use(lambda indexes: indexes.statistics)

    def held_bytes(self) -> int:
        """Count the bytes that the last run has used beside the indexes, of all workers."""
        return self._indexes.use(lambda indexes: indexes.held_bytes())

    def count(self, batch: int = BATCH_PROPOSALS) -> int:
        """Count the matches: the assignments of values to the variables, with their multiplicities."""
        return self._indexes.use(lambda indexes: indexes.count(batch))

    def count_share(self, share: int, shares: int, batch: int = BATCH_PROPOSALS) -> int:
        """Count one of `shares` disjoint parts of the matches."""
        return self._indexes.use(lambda indexes: indexes.count_share(share, shares, batch))

    def rows(self, batch: int = BATCH_PROPOSALS) -> Iterator[np.ndarray]:
        """Yield the matches in parts: values in the order of `variables`, and the multiplicity last.

        A later call that counts, lists or loads ends the iteration.
        """
        return self._indexes.each(lambda indexes: indexes.rows(batch))

    @property
    def factors(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The variables of prefixes, and the remaining ones, whose values are lists."""
        return self._indexes.use(lambda indexes: indexes.factors)

    def factorized(self, batch: int = BATCH_PROPOSALS) -> Iterator[FactorizedRows]:
        """Yield the matches as products of independent values: see `factors`. It ends as the iteration of `rows`."""
        return self._indexes.each(lambda indexes: indexes.factorized(batch))

    def close(self) -> None:
        """End the threads, and release all memory. Then every other method raises an error."""
        self._indexes.close()
