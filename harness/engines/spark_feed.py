"""The workload of a cell as Spark reads it: each executor opens the data and cuts its share of a batch for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.schema import RelationName, relation
from deltamark.datagen.workload import Workload, workload

if TYPE_CHECKING:
    from deltamark.dataflow.batch import Batch


@dataclass(frozen=True)
class FeedSource:
    """A workload in physical batches of one size."""

    directory: str
    digest: str
    workload: str
    logical: int
    physical: int
    rounds: int
    names: tuple[RelationName, ...]

    @property
    def batches(self) -> int:
        return -(-self.rounds // self._step)

    @property
    def _step(self) -> int:
        """The number of rounds of a physical batch."""
        return self.logical * self.physical

    @property
    def identity(self) -> Mapping[str, str]:
        return {
            "data": self.digest, "workload": self.workload, "rounds": str(self.rounds),
            "logical batch": str(self.logical), "physical batch": str(self.physical),
        }  # fmt: skip

    def rows(self, batch: int) -> int:
        first = batch * self._step
        last = min(first + self._step, self.rounds)
        _, work = _opened(self.directory, self.workload)
        return sum(piece.stop - piece.start for name in self.names for piece in work.pieces(name, first, last))

    def open(self, wanted: Mapping[str, tuple[str, ...]]) -> ShareReader:
        return ShareReader(self, wanted)

    def feed(self, wanted: Mapping[str, tuple[str, ...]], worker: int, workers: int) -> Feed:
        """Open the share of one of several workers."""
        columns = {relation(name).name: names for name, names in wanted.items()}
        return Feed(
            *_opened(self.directory, self.workload), columns, logical=self.logical, worker=worker, workers=workers,
            until=self.rounds,
        )  # fmt: skip

    def take(self, feed: Feed, batch: int) -> Mapping[str, Batch]:
        """Cut a batch out of a share."""
        from deltamark.harness.engines.inputs import batches  # noqa: PLC0415 (planning with a source needs no engine)

        feed.round = batch * self._step
        return batches(feed.take(self.physical))


@cache
def _opened(directory: str, name: str) -> tuple[Dataset, Workload]:
    dataset = Dataset.open(Path(directory))
    return dataset, workload(dataset, name)


class ShareReader:
    """Reads shares of batches; it keeps the feed of each share that it has read from."""

    def __init__(self, source: FeedSource, wanted: Mapping[str, tuple[str, ...]]) -> None:
        self._source = source
        self._feed = cache(lambda piece, pieces: source.feed(wanted, piece, pieces))

    def take(self, batch: int, piece: int, pieces: int) -> Mapping[str, Batch]:
        return self._source.take(self._feed(piece, pieces), batch)
