"""Nexmark as a source: its relations, and the events of a scale factor, drawn in blocks by a Spark job.

Scale factor 1 is a million events. Event i arrives in round i, so the rows of a relation do not arrive in each round.
The table side_input arrives in round 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamark.datagen.nexmark.events import KINDS, side_input
from deltamark.datagen.schema import CHANGES_SCHEMA, Relations, relation
from deltamark.datagen.source import Parts, Source
from deltamark.datagen.spark.session import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = 2
"""The version of the events."""

EVENTS = 1_000_000
"""The events of scale factor 1."""

BLOCK_EVENTS = 500_000
"""The number of events of a task, whose largest file has about 80 MB. Not tuned."""

SIDE_INPUT = "side_input"

RELATIONS = Relations((
    relation(
        "auction", "", "id",
        "id:int initial_bid:int reserve:int date_time:int expires:int seller:int category:int item_name:text "
        "description:text extra:text",
        references=(("seller", "person"),),
    ),
    relation(
        "bid", "", "", "auction:int bidder:int price:int date_time:int channel:text url:text extra:text",
        references=(("auction", "auction"), ("bidder", "person")),
    ),
    relation(
        "person", "", "id",
        "id:int date_time:int name:text email_address:text credit_card:text city:code state:code extra:text",
    ),
    relation(SIDE_INPUT, "", "key", "key:int value:text", roles=("fixed",)),
))  # fmt: skip


@dataclass(frozen=True)
class BlockTask:
    """The events start to stop - 1 of a relation, to be written to a file."""

    kind: str
    start: int
    stop: int
    path: Path


class NexmarkGenerator(Source):
    name = "nexmark"
    relations = RELATIONS

    def __init__(self, block_events: int = BLOCK_EVENTS) -> None:
        self._block_events = block_events

    def version(self) -> str:
        return f"events{VERSION}"

    def parts(
        self, spark: Callable[[], SparkSession], sf: Decimal, making: Path, report: Callable[[int, int], None]
    ) -> Parts:
        events = int(sf * EVENTS)
        starts = range(0, events, self._block_events)
        tasks = [
            BlockTask(kind, start, min(start + self._block_events, events), making / f"{kind}-{number:05}.parquet")
            for kind in KINDS
            for number, start in enumerate(starts)
        ]
        run_tasks(spark(), write_block, tasks, lambda: report(sum(task.path.exists() for task in tasks), len(tasks)))
        files = {kind: [task.path for task in tasks if task.kind == kind] for kind in KINDS}
        files[SIDE_INPUT] = [making / f"{SIDE_INPUT}.parquet"]
        pq.write_table(side_input(), files[SIDE_INPUT][0])
        return Parts(RELATIONS, files, {name: _write_rounds(name, events, making) for name in RELATIONS})


def write_block(task: BlockTask) -> None:
    """Write the events of a block, whole or not at all."""
    making = task.path.with_suffix(".making")
    pq.write_table(pa.Table.from_batches([KINDS[task.kind].batch(task.start, task.stop)]), making)
    making.rename(task.path)


def _write_rounds(name: str, events: int, making: Path) -> Path:
    """Write the round in which each row arrives."""
    path, kind = making / f"rounds of {name}.parquet", KINDS.get(name)
    rows = np.arange(side_input().num_rows if kind is None else kind.rows_of(events))
    rounds = np.zeros_like(rows) if kind is None else kind.events_of(rows)
    pq.write_table(pa.table([rows, np.ones_like(rows), rounds], schema=CHANGES_SCHEMA), path)
    return path


NEXMARK = NexmarkGenerator()
