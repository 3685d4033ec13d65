"""A stage as Spark runs it: a stateful processor with one group of rows per shard, whose state is the log of the shard.

While Spark plans a query it starts a process for each stage, only to learn the state variables of the stage. So this
module imports the engine (0.4 s) and pandas (0.5 s) only where rows are processed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from deltamark.dataflow.spark.messages import RUN_PROPERTY, ShardKey, StageSpec, task_property

if TYPE_CHECKING:
    import pandas as pd

STATE_VARIABLE = "log"

KEY = StructType([StructField("name", StringType())])
CONTENT = StructType([StructField("content", BinaryType())])
"""The columns of the log; a schema as text would be parsed by the JVM in every batch."""


class StageProcessor(StatefulProcessor):
    """Applies batches to the shards of a stage."""

    def __init__(self, stage: StageSpec) -> None:
        self._stage_text = stage.to_text()

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._contents = handle.getMapState(STATE_VARIABLE, KEY, CONTENT)

    def handleInputRows(  # noqa: N802 (Spark's name)
        self, key: tuple[int], rows: Iterator[pd.DataFrame], timerValues: TimerValues  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:  # fmt: skip
        """Apply a batch to the shard whose label is the key."""
        # planning needs no engine
        from deltamark.dataflow.spark.shard import process_batch  # noqa: PLC0415
        from deltamark.dataflow.spark.state_log import StateLog  # noqa: PLC0415

        stage = StageSpec.from_text(self._stage_text)
        shard = ShardKey(task_property(RUN_PROPERTY), stage.number, stage.labels.index(int(key[0])))
        yield from process_batch(stage, shard, StateLog(self._contents), rows)

    def close(self) -> None:
        """Do nothing: shards stay alive for the next batch."""
