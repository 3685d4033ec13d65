"""Faults of the environment: disks, memory, limits, processes. Each is told in one line, as mistakes of users are.

Whatever is not recognised here is a mistake of this project, and keeps its traceback.
"""

from __future__ import annotations

import re

from deltamark.errors import DeltamarkError, refused

OURS = ("datagen", "dataflow", "deltamark", "harness", "queries")
LESS = "free memory or raise ulimit -v, or ask for less: a smaller SF, fewer WORKERS"
THREADS = "raise ulimit -v or ulimit -u, or end other programs"

NATIVE = re.compile(
    "failed to map segment|cannot allocate memory in|cannot open shared object|load shared object", re.IGNORECASE
)
"""What the loader of shared libraries says of them."""

NO_THREAD = re.compile("can't start new thread|Failed to launch worker thread")

JAVA = re.compile(
    "OutOfMemoryError|No space left on device|Cannot allocate memory|unable to create (new )?native thread|"
    "Answer from Java side is empty|An error occurred while trying to connect to the Java server"
)


def told(error: BaseException) -> DeltamarkError | None:
    """Return the error that tells of a fault of the environment; None if it is something else."""
    match error:
        case MemoryError():
            return DeltamarkError("out of memory", _said(error), LESS)
        case ImportError() | OSError() if found := _line(error, NATIVE):
            return DeltamarkError("a library cannot be loaded", found, LESS)
        case OSError():
            return refused(error)
        case ModuleNotFoundError():
            missing = (error.name or "").partition(".")[0]
            return None if missing in OURS else DeltamarkError("a package is missing", missing, "run make setup")
        case Exception() if found := _line(error, NO_THREAD):  # Python and Arrow have a class of their own for it
            return DeltamarkError("out of threads", found, THREADS)
    return _told_of_library(error)


def _told_of_library(error: BaseException) -> DeltamarkError | None:
    """Tell of errors of DuckDB and of Spark, by their names: they are not imported for that."""
    library, name = type(error).__module__.partition(".")[0], type(error).__name__
    if library in ("duckdb", "_duckdb") and name == "OutOfMemoryException":
        return DeltamarkError("DuckDB is out of memory", _said(error), LESS)
    if library in ("duckdb", "_duckdb") and name == "IOException":
        return DeltamarkError("DuckDB cannot read or write", _said(error), "make room, or set TMPDIR to another place")
    if library in ("py4j", "pyspark") and (found := JAVA.search(str(error))):
        return DeltamarkError("Spark has failed", found[0], f"{LESS}; --debug shows more")
    return None


def _line(error: BaseException, pattern: re.Pattern[str]) -> str:
    """Return the line of what an error says that has a pattern in it."""
    return next((line.strip() for line in str(error).splitlines() if pattern.search(line)), "")


def _said(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
