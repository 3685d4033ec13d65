"""The directory of a query: its identity, Spark's checkpoint, and the changes of the answer.

The directory may be on any of Hadoop's file systems, which are reached through Spark's JVM.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from deltamark.dataflow.spark.state_log import refuse_another
from deltamark.errors import DeltamarkError

IDENTITY_FILE, CHECKPOINT, CHANGES = "identity.json", "checkpoint", "changes"

RENAMING_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""The checkpoint manager that renames files itself; on a local disk, Spark's default starts a process for each file."""


class QueryDirectory:
    """The directory of one query, which may be continued only with the same plan, inputs, shards and code."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 (the only way to Hadoop's file systems)
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._path.getFileSystem(context._jsc.hadoopConfiguration())  # noqa: SLF001

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark that suit the file system of the directory."""
        is_local = self._files.getScheme() == "file"
        return {"spark.sql.streaming.checkpointFileManagerClass": RENAMING_MANAGER} if is_local else {}

    def path(self, name: str) -> str:
        """Return the path of a file or directory in this directory."""
        return str(self._child(name).toString())

    def claim(self, identity: Mapping[str, str]) -> None:
        """Record the identity of the query in a new directory; refuse a directory of another query."""
        file = self._child(IDENTITY_FILE)
        if not self._files.exists(file):
            self._write(file, identity)
            return
        stored = self._read(file)
        refuse_another(stored, identity, self._path.toString())

    def _child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def _write(self, file: Any, identity: Mapping[str, str]) -> None:
        if self._files.exists(self._path) and len(self._files.listStatus(self._path)):
            remedy = "give an empty directory or a new one"
            raise DeltamarkError("not the directory of a query", self._path.toString(), remedy)
        stream = self._files.create(file, False)  # noqa: FBT003 (Hadoop's flag: do not overwrite)
        stream.write(json.dumps(dict(identity), indent=1).encode())
        stream.close()

    def _read(self, file: Any) -> dict[str, str]:
        stream = self._files.open(file)
        try:
            return dict(json.loads(bytes(stream.readAllBytes())))
        except (ValueError, TypeError, Py4JJavaError) as error:
            reason = error.java_exception if isinstance(error, Py4JJavaError) else error
            remedy = f"remove {self._path.toString()} and start again"
            raise DeltamarkError("a corrupt checkpoint", f"{file.toString()}: {reason}", remedy) from error
        finally:
            stream.close()
