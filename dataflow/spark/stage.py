"""A stage as Spark runs it: a processor with a group of rows a shard, whose state is the shard's log.

Spark starts a process for each stage to ask it what state it has: here nothing is imported that this does not need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from deltamark.dataflow.spark.planning.edges import Cut


@dataclass(frozen=True)
class Part:
    """One stage of a plan, in one run of its query; labels: what its shards are called."""

    plan: Cut
    stage: int
    labels: tuple[int, ...]
    run: str


class Stage(StatefulProcessor):
    def __init__(self, part: Part) -> None:
        self._part = part

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._contents: Any = handle.getMapState("log", "edge string, batch bigint, piece int", "content binary")
        self._kept: Any = handle.getValueState("kept", "kept string")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        """Apply a batch to a shard."""
        from deltamark.dataflow.spark.stage_batch import Turn  # noqa: PLC0415
        from deltamark.dataflow.spark.state_log import StateLog  # noqa: PLC0415 (what only asks for the state needs no engine)

        yield from Turn(self._part, int(key[0]), StateLog(self._contents, self._kept)).take(rows)

    def close(self) -> None:
        """Do nothing: shards stay alive for the next batch."""
