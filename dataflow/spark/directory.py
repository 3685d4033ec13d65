"""Directories on any of Hadoop's file systems, which are reached through Spark's JVM."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from deltamark.errors import DeltamarkError


class Directory:
    """A directory and all below it. Names are relative to it, and may contain slashes."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm  # noqa: SLF001 (the only way to Hadoop's file systems)
        self.configuration: Any = context._jsc.hadoopConfiguration()  # noqa: SLF001
        self.spark = spark
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._path.getFileSystem(self.configuration)

    @property
    def is_local(self) -> bool:
        return bool(self._files.getScheme() == "file")

    @property
    def name(self) -> str:
        return str(self._qualified().getName())

    @property
    def parent(self) -> str:
        """The absolute path of the directory above."""
        return str(self._qualified().getParent().toString())

    def _qualified(self) -> Any:
        return self._files.makeQualified(self._path)

    def path(self, name: str = "") -> str:
        """Return the path of the directory, or of a file or directory below it."""
        return str(self._child(name).toString())

    def exists(self, name: str = "") -> bool:
        return bool(self._files.exists(self._child(name)))

    def names(self, name: str = "") -> list[str]:
        """List a directory; return nothing if it does not exist."""
        if not self.exists(name):
            return []
        return [str(each.getPath().getName()) for each in self._files.listStatus(self._child(name))]

    def numbers(self, name: str) -> list[int]:
        """Return the numbers among the names in a directory, in order."""
        return sorted(int(each) for each in self.names(name) if each.isdecimal())

    def read(self, name: str) -> str:
        stream = self._files.open(self._child(name))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file; replace an older one."""
        stream = self._files.create(self._child(name), True)  # noqa: FBT003 (Hadoop's flag: overwrite)
        stream.write(text.encode())
        stream.close()

    def copy(self, name: str, to: str) -> None:
        """Copy a file, or a directory with all below it, to a name that does not exist."""
        copy = self._jvm.org.apache.hadoop.fs.FileUtil.copy
        source, target = self._child(name), self._child(to)
        self._files.mkdirs(target.getParent())
        copy(self._files, source, self._files, target, False, self.configuration)  # noqa: FBT003 (do not move)

    def rename(self, name: str, to: str) -> None:
        """Rename a file or directory, at once."""
        if not self._files.rename(self._child(name), self._child(to)):
            raise DeltamarkError("a directory cannot be renamed", f"{self.path(name)} to {to}", "see its permissions")

    def delete(self, name: str = "") -> None:
        """Delete a file, or a directory with all below it, if it exists."""
        self._files.delete(self._child(name), True)  # noqa: FBT003 (Hadoop's flag: recursively)

    def _child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name) if name else self._path
