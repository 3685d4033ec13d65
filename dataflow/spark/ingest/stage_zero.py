"""Stage 0: the stateless operators that filter and project the inputs where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch, Column, trusted
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.runtime.worker import Worker
from deltamark.dataflow.spark.ingest.input_source import InputColumns
from deltamark.dataflow.spark.ingest.wire import messages_for
from deltamark.dataflow.spark.messages import Message
from deltamark.dataflow.spark.planning.staged_plan import ROW, StageOutput


class StageZero:
    """Computes some of the edges from stage 0."""

    def __init__(self, outputs: Sequence[StageOutput], shards: int) -> None:
        self._outputs, self._shards = outputs, shards
        self._worker = Worker(compile_plans({output.edge.name: output.node for output in self._outputs}))

    @property
    def columns(self) -> InputColumns:
        """The columns that are read of each input."""
        columns = {name: dict.fromkeys(names) for name, names in self._worker.inputs.items()}
        for output in self._outputs:
            columns[output.input].update(dict.fromkeys(output.texts.values()))
        return {name: tuple(column for column in names if column != ROW) for name, names in columns.items()}

    def process(self, batches: Mapping[str, Batch]) -> Iterator[Message]:
        """Yield the messages that a piece of the inputs causes."""
        read = [name for name, batch in batches.items() if name in self._worker.inputs and len(batch.time)]
        changes = self._worker.feed({name: self._columns_read(name, batches[name]) for name in read})
        for output in self._outputs:
            computed = changes[output.edge.name]
            if len(computed.time):
                yield from messages_for(output.edge, _with_texts(output, computed, batches), shards=self._shards)

    def close(self) -> None:
        self._worker.close()

    def _columns_read(self, name: str, batch: Batch) -> Batch:
        """Select the columns that the program reads, and number the rows if the program reads ROW."""
        columns: dict[str, Column] = {
            column: np.arange(len(batch.time)) if column == ROW else batch.columns[column]
            for column in self._worker.inputs[name]
        }
        return trusted(batch.time, batch.diff, columns, nullable=self._worker.bindings[name].nullable)


def _with_texts(output: StageOutput, changes: Batch, batches: Mapping[str, Batch]) -> Batch:
    """Fetch the texts of changes from the input by the row numbers that the program has passed on."""
    if not output.texts:
        return changes
    rows, texts = pa.array(changes.columns[ROW]), batches[output.input].columns
    columns = {**changes.columns, **{name: texts[origin].take(rows) for name, origin in output.texts.items()}}
    return Batch(changes.time, changes.diff, columns)
