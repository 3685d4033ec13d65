"""The directory of a query: what it is the checkpoint of, Spark's checkpoint, and the changes of the answer.

It may be wherever Hadoop's file systems reach.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from deltamark.errors import DeltamarkError
from deltamark.sources import digest

IDENTITY, CHECKPOINT, CHANGES = "identity.json", "checkpoint", "changes"
RENAMES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
REMEDY = "give what it was started with, or another directory"


def code_digest() -> str:
    """Return a digest of the code that state depends on."""
    return digest("deltamark.dataflow")


class Directory:
    def __init__(self, spark: SparkSession, path: str) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 (the only way to Hadoop's file systems)
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._path.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001

    @property
    def settings(self) -> dict[str, str]:
        """What Spark should do here: as it renames files by itself, it starts a process for every file on a disk."""
        return {"spark.sql.streaming.checkpointFileManagerClass": RENAMES} if self._files.getScheme() == "file" else {}

    def under(self, name: str) -> str:
        return str(self._jvm.org.apache.hadoop.fs.Path(self._path, name).toString())

    def claim(self, identity: Mapping[str, str]) -> None:
        """Write down what a new directory is of, or refuse one that is of something else."""
        place = self._jvm.org.apache.hadoop.fs.Path(self._path, IDENTITY)
        if not self._files.exists(place):
            if self._files.exists(self._path) and len(self._files.listStatus(self._path)):
                raise DeltamarkError("not a directory of a query", self._path.toString(), "give an empty or a new one")
            stream = self._files.create(place, False)  # noqa: FBT003 (do not overwrite)
            stream.write(json.dumps(dict(identity), indent=1).encode())
            stream.close()
            return
        found = self._read(place)
        for name in {**identity, **found}:
            if found.get(name) != identity.get(name):
                actual = f"its {name} is {found.get(name)}, not {identity.get(name)} ({self._path.toString()})"
                raise DeltamarkError("a checkpoint of something else", actual, REMEDY)

    def _read(self, place: Any) -> dict[str, str]:
        stream = self._files.open(place)
        try:
            return dict(json.loads(bytes(stream.readAllBytes())))
        except (ValueError, TypeError, Py4JJavaError) as error:
            reason = error.java_exception if isinstance(error, Py4JJavaError) else error
            remedy = f"remove {self._path.toString()} and start again"
            raise DeltamarkError("a corrupt checkpoint", f"{place.toString()}: {reason}", remedy) from error
        finally:
            stream.close()
