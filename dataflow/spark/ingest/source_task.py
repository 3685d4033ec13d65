"""What a task of a source reads: its share of a batch, cut and put through stage 0."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from deltamark.dataflow.spark.ingest.source import BEGIN, Piece, Spec
from deltamark.dataflow.spark.ingest.stage_zero import Reading, Taker

ARROW = pa.schema([("label", pa.int64()), ("edge", pa.string()), ("batch", pa.int64()), ("content", pa.binary())])


def mails(text: str, of: Piece) -> Iterator[pa.RecordBatch]:
    """Read what a task is to read, of the source that is made of this text."""
    opened = _opened(text)
    return opened.mails(of) if of.batch else opened.begun()


@cache
def _opened(text: str) -> Opened:
    return Opened(Spec.of(text))


class Opened:
    """A source as an executor reads it."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._reading = Reading(spec.plan, spec.stage, len(spec.labels))
        self._taker: Taker = spec.source.open(self._reading.wanted)

    def begun(self) -> Iterator[pa.RecordBatch]:
        """Call the first shard, once there is nothing left to compile."""
        for _ in self._reading.sent({}):
            raise AssertionError
        yield _rows([(self._spec.labels[0], BEGIN, 0, b"")])

    def mails(self, of: Piece) -> Iterator[pa.RecordBatch]:
        """Read a task's share of a batch, piece by piece."""
        for piece in of.mine:
            for shard, edge, content in self._reading.sent(self._taker.take(of.batch - 1, piece, of.pieces)):
                yield _rows([(self._spec.labels[shard], edge, of.batch, content)])


def _rows(rows: list[tuple[int, str, int, bytes]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)], schema=ARROW
    )
