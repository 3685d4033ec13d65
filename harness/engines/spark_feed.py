"""The workload of a cell as Spark reads it: each executor opens the data and cuts its share of a batch for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload

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
    names: tuple[str, ...]

    @property
    def batch_rounds(self) -> int:
        return self.logical * self.physical

    @property
    def batches(self) -> int:
        return -(-self.rounds // self.batch_rounds)

    @property
    def identity(self) -> Mapping[str, str]:
        return {
            "data": self.digest, "workload": self.workload, "rounds": str(self.rounds),
            "logical batch": str(self.logical), "physical batch": str(self.physical),
        }  # fmt: skip

    def rows(self, batch: int) -> int:
        first, last = batch * self.batch_rounds, min((batch + 1) * self.batch_rounds, self.rounds)
        work = opened(self.directory, self.workload)
        return sum(len(piece.rows) for name in self.names for piece in work.pieces(name, first, last))

    def open(self, wanted: Mapping[str, tuple[str, ...]]) -> ShareReader:
        return ShareReader(self, wanted)


@cache
def opened(directory: str, name: str) -> Workload:
    """Open the data of a workload, once in each process."""
    return workload(Dataset.open(Path(directory)), name)


class ShareReader:
    """Reads shares of batches in an executor. It keeps the feed of each share."""

    def __init__(self, source: FeedSource, wanted: Mapping[str, tuple[str, ...]]) -> None:
        self._source = source
        self._columns = wanted
        self._feed = cache(self._open_feed)

    def _open_feed(self, piece: int, pieces: int) -> Feed:
        source = self._source
        return Feed(
            opened(source.directory, source.workload), self._columns, logical=source.logical, worker=piece,
            workers=pieces, until=source.rounds,
        )  # fmt: skip

    def take(self, batch: int, piece: int, pieces: int) -> Mapping[str, Batch]:
        from deltamark.harness.engines.inputs import batches  # noqa: PLC0415 (planning with a source needs no engine)

        feed = self._feed(piece, pieces)
        feed.round = batch * self._source.batch_rounds
        return batches(feed.take(self._source.physical))
