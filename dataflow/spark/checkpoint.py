"""A checkpoint of Spark: the planned and the committed batches of a query, the number of its shards, and their state.

Spark stores the settings of a query with each planned batch. A query that continues takes its number of shards from
there, whatever the session has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from deltamark.dataflow.spark.chain import SHUFFLE_PARTITIONS
from deltamark.dataflow.spark.directory import Directory
from deltamark.dataflow.spark.stage import STATE_VARIABLE
from deltamark.dataflow.spark.state_log import INDEX, LogIndex
from deltamark.errors import DeltamarkError

OFFSETS, COMMITS, STATE, METADATA, OPERATOR_METADATA = "offsets", "commits", "state", "metadata", "_metadata/v2"

OFFSETS_VERSION = "v1"
"""The first line of the file of a planned batch; the second has its settings."""

PLANNED = "planned-shards"
"""The file with the number of shards for which the plan was made. A checkpoint whose number never changed lacks it."""


@dataclass(frozen=True)
class ShardState:
    """The state that a shard has stored: the rows and the bytes of the net changes from which it can be rebuilt.

    stage: the number of the stateful operator, in the order in which rows pass through them, from 1.
    """

    stage: int
    shard: int
    rows: int
    size: int


def stored_state(spark: SparkSession, checkpoint: str) -> list[ShardState]:
    """Return the stored state of each shard of a query, as of its last completed batch. The query may be running.

    checkpoint: the path with which the query was started. A job of Spark reads the whole state.
    """
    return Checkpoint(spark, checkpoint).state()


class Checkpoint(Directory):
    """The directory of a checkpoint, which need not exist."""

    @property
    def planned_batch(self) -> int:
        """The number of the last planned batch, or -1."""
        return max(self.numbers(OFFSETS), default=-1)

    @property
    def committed_batch(self) -> int:
        """The number of the last committed batch, or -1."""
        return max(self.numbers(COMMITS), default=-1)

    @property
    def shards(self) -> int | None:
        """The number of shards, or None if no batch has been planned."""
        batch = self.planned_batch
        return None if batch < 0 else int(self._parts(batch)[0]["conf"][SHUFFLE_PARTITIONS])

    @property
    def planned_shards(self) -> int | None:
        """The number of shards for which the plan was made, or None if no batch has been planned."""
        return int(self.read(PLANNED)) if self.exists(PLANNED) else self.shards

    @property
    def query(self) -> str:
        """The name of the query that Spark has drawn when the checkpoint was new."""
        return str(json.loads(self.read(METADATA))["id"])

    def state(self) -> list[ShardState]:
        """Read the state of all shards after the last committed batch, in the order of stages and shards."""
        operators = self.numbers(STATE) if self.committed_batch >= 0 else []
        return [each for operator in reversed(operators) for each in self._state_of(operator, len(operators))]

    def _state_of(self, operator: int, operators: int) -> list[ShardState]:
        """Read the state of an operator. Spark numbers the last one 0."""
        reader = self.spark.read.format("statestore").option("stateVarName", STATE_VARIABLE)
        rows = reader.option("operatorId", operator).load(self.path())
        indexes = {  # a shard that has received no rows has no index
            row["partition_id"]: LogIndex.from_bytes(bytes(row["user_map_value"]["content"]))
            for row in rows.where(f.col("user_map_key.name") == INDEX).collect()
        }
        shards = ((each, indexes.get(each, LogIndex())) for each in range(self.shards or 0))
        return [ShardState(operators - operator, each, index.rows, index.size) for each, index in shards]

    def copy_for(self, shards: int, target: Checkpoint) -> None:
        """Copy all but the states of shards to a new directory, with another number of shards."""
        for name in self.names():
            if name != STATE:
                self.copy(name, target.path(name))
        for operator in map(str, self.numbers(STATE)):
            for name in self.names(f"{STATE}/{operator}"):
                if not name.isdecimal():
                    self.copy(f"{STATE}/{operator}/{name}", target.path(f"{STATE}/{operator}/{name}"))
        target.write(PLANNED, str(self.planned_shards))
        target.set_shards(shards)

    def set_shards(self, shards: int) -> None:
        """Write the number of shards wherever Spark has stored it."""
        for batch in self.numbers(OFFSETS):
            metadata, rest = self._parts(batch)
            metadata["conf"][SHUFFLE_PARTITIONS] = str(shards)
            self.write(f"{OFFSETS}/{batch}", "\n".join([OFFSETS_VERSION, json.dumps(metadata), *rest]))
        for operator in self.numbers(STATE):
            folder = f"{STATE}/{operator}/{OPERATOR_METADATA}"
            for batch in self.numbers(folder):
                version, content = self.read(f"{folder}/{batch}").split("\n", 1)
                metadata = json.loads(content)
                for store in metadata["stateStoreInfo"]:
                    store["numPartitions"] = shards
                self.write(f"{folder}/{batch}", f"{version}\n{json.dumps(metadata)}")

    def _parts(self, batch: int) -> tuple[dict[str, Any], list[str]]:
        """Return the metadata of a planned batch, and the lines with the offsets of its sources."""
        try:
            version, metadata, *offsets = self.read(f"{OFFSETS}/{batch}").split("\n")
            if version == OFFSETS_VERSION:
                return json.loads(metadata), offsets
        except (ValueError, Py4JJavaError) as error:
            version = str(error.java_exception if isinstance(error, Py4JJavaError) else error)
        actual = f"{self.path(f'{OFFSETS}/{batch}')}: {version}"
        raise DeltamarkError("a corrupt checkpoint", actual, f"remove {self.path()} and start again")
