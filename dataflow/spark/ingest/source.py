"""Spark's source of a stage: the mails that stage 0 sends to it, a physical batch at a time.

Offsets count batches. Batch 0 has no rows: it wakes the first shard of each stage, so that what an answer says before
any input is said, and whatever a process needs time for is done. A stage that inputs reach directly has a source of its
own: all of them hand out one batch a micro-batch, so they go in step.

Spark starts a process for each source, and some more to plan with it: here nothing is imported that they don't need.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from deltamark.dataflow.spark.planning.edges import Cut

if TYPE_CHECKING:
    from deltamark.dataflow.spark.ingest.stage_zero import Source

SCHEMA = "label bigint, edge string, batch bigint, content binary"
"""A mail: for which shard, by its label; an empty edge is a call to begin."""

FORMAT, SPEC, BEGIN = "deltamark", "spec", ""
FEW_ROWS, MANY_ROWS = 10_000, 250_000
"""So few rows are read by one task; and more than so many are not sent as one mail."""


@dataclass(frozen=True)
class Spec:
    """What a source is made of."""

    plan: Cut
    stage: int
    labels: tuple[int, ...]
    source: Source

    @property
    def text(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()

    @classmethod
    def of(cls, text: str) -> Spec:
        found: Spec = pickle.loads(base64.b64decode(text))  # noqa: S301 (our own driver wrote it)
        return found


class Mails(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's)
        return MailReader(self.options[SPEC])


@dataclass
class Piece(InputPartition):
    """What a task reads of a batch: some of the pieces that it is cut into."""

    batch: int
    mine: range
    pieces: int


class MailReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, text: str) -> None:
        self._text = text
        self._spec = Spec.of(text)
        self._batches = self._spec.source.batches + 1

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(1)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: what there is does not grow."""

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        return {"batch": min(start["batch"] + 1, self._batches)}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[InputPartition]:
        found: list[InputPartition] = []
        for batch in range(start["batch"], end["batch"]):
            rows, shards = self._spec.source.rows(batch - 1) if batch else 0, len(self._spec.labels)
            tasks = shards if rows > FEW_ROWS else 1
            pieces = tasks * max(-(-rows // (tasks * MANY_ROWS)), 1)
            found += [Piece(batch, range(task, pieces, tasks), pieces) for task in range(tasks)]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        from deltamark.dataflow.spark.ingest.source_task import mails  # noqa: PLC0415 (what only makes a plan of it needs no engine)

        yield from mails(self._text, partition)

    def commit(self, end: Mapping[str, int]) -> None:
        """Do nothing: what was read can be read again."""

    def stop(self) -> None:
        """Do nothing: nothing is held."""
