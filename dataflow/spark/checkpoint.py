"""A checkpoint of Spark: the planned and the committed batches of a query, and the number of its shards.

Spark stores the settings of a query with each planned batch. A query that continues takes its number of shards from
there, whatever the session has.
"""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JJavaError

from deltamark.dataflow.spark.chain import SHUFFLE_PARTITIONS
from deltamark.dataflow.spark.directory import Directory
from deltamark.errors import DeltamarkError

OFFSETS, COMMITS, STATE, METADATA, OPERATOR_METADATA = "offsets", "commits", "state", "metadata", "_metadata/v2"

OFFSETS_VERSION = "v1"
"""The first line of the file of a planned batch; the second has its settings."""

PLANNED = "planned-shards"
"""The file with the number of shards for which the plan was made. A checkpoint whose number never changed lacks it."""


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
