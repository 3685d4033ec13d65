"""Faults of the environment: disks, memory, limits, processes. Each is reported in one line, like mistakes of users.

An error that is not recognised here is a defect of this project, and keeps its traceback.
"""

from __future__ import annotations

import re

from deltamark.errors import DeltamarkError, refused

OWN_PACKAGES = ("datagen", "dataflow", "deltamark", "harness", "queries")
LESS_MEMORY = "free memory or raise ulimit -v, or ask for less: a smaller SF, fewer WORKERS"
MORE_THREADS = "raise ulimit -v or ulimit -u, or end other programs"

NATIVE_LIBRARY = re.compile(
    "failed to map segment|cannot allocate memory in|cannot open shared object|load shared object|"
    "without exception set",
    re.IGNORECASE,
)
"""Messages of the loader of shared libraries, and Python's if a library cannot even allocate its exception."""

NO_THREAD = re.compile("can't start new thread|Failed to launch worker thread")

JAVA = re.compile(
    "OutOfMemoryError|No space left on device|Cannot allocate memory|unable to create (new )?native thread|"
    "Answer from Java side is empty|An error occurred while trying to connect to the Java server"
)


def environment_fault(error: BaseException) -> DeltamarkError | None:
    """Return the error to report for a fault of the environment; None for any other error."""
    match error:
        case MemoryError():
            return DeltamarkError("out of memory", _first_line(error), LESS_MEMORY)
        case ImportError() | OSError() | SystemError() if line := _matching_line(error, NATIVE_LIBRARY):
            return DeltamarkError("a library cannot be loaded", line, LESS_MEMORY)
        case OSError():
            return refused(error)
        case ModuleNotFoundError():
            missing = (error.name or "").partition(".")[0]
            return (
                None if missing in OWN_PACKAGES else DeltamarkError("a package is missing", missing, "run make setup")
            )
        case Exception() if line := _matching_line(error, NO_THREAD):  # Python and Arrow raise classes of their own
            return DeltamarkError("out of threads", line, MORE_THREADS)
    return _library_fault(error)


def _library_fault(error: BaseException) -> DeltamarkError | None:
    """Recognise errors of DuckDB and of Spark by their class names, which needs no import of these libraries."""
    library, name = type(error).__module__.partition(".")[0], type(error).__name__
    if library in ("duckdb", "_duckdb") and name == "OutOfMemoryException":
        return DeltamarkError("DuckDB is out of memory", _first_line(error), LESS_MEMORY)
    if library in ("duckdb", "_duckdb") and name == "IOException":
        remedy = "make room, or set TMPDIR to another place"
        return DeltamarkError("DuckDB cannot read or write", _first_line(error), remedy)
    if library in ("py4j", "pyspark") and (message := JAVA.search(str(error))):
        return DeltamarkError("Spark has failed", message[0], f"{LESS_MEMORY}; --debug shows more")
    return None


def _matching_line(error: BaseException, pattern: re.Pattern[str]) -> str:
    return next((line.strip() for line in str(error).splitlines() if pattern.search(line)), "")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
