"""The store of records: a directory per machine with append-only JSON lines, and one writer at a time.

Older code wrote the records of suites other than TPC-H to a second file, which is only read.

A crash can only cut off the last line; readers skip it, and the next writer removes it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.results.record import Record, upgraded
from deltamark.harness.system.machine import Header

RECORDS, SESSIONS = "records.jsonl", "sessions.jsonl"
LOCK, STOP = "lock", "STOP"
CONTRIBUTED = "contributed"
"""The directory of results that has a directory for each contribution of others."""

Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class StoredRecords:
    """The records of a machine, and the number of lines of other versions, which are not comparable."""

    records: list[Record]
    foreign: int


class Writer:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def add(self, records: Iterable[Record]) -> None:
        """Append records. Those of a cell are written at once, so it has all of them, or is measured again."""
        self._append(RECORDS, map(msgspec.json.encode, records))

    def add_session(self, header: Header) -> None:
        self._append(SESSIONS, [msgspec.json.encode(header)])

    def take_stop(self) -> bool:
        """Remove the file STOP here or in the parent directory; return whether there was one."""
        paths = [path for path in (self._directory / STOP, self._directory.parent / STOP) if path.exists()]
        for path in paths:
            path.unlink(missing_ok=True)
        return bool(paths)

    def _append(self, name: str, lines: Iterable[bytes]) -> None:
        path = self._directory / name
        with naming(path), _open(path) as file:
            file.write(b"".join(line + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def writing(directory: Path) -> Iterator[Writer]:
    """Open the store of a machine for appending, unless another process has."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("a+", encoding="utf-8", errors="replace") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read().strip() or "another process"
            remedy = f"wait for it, or stop it: touch {directory.parent / STOP}"
            raise DeltamarkError(f"{directory} is being written to", owner, remedy) from None
        with naming(directory / LOCK):
            lock.truncate(0)
            lock.write(f"process {os.getpid()}\n")
            lock.flush()
        writer = Writer(directory)
        writer.take_stop()  # a stale STOP file was meant for a previous run
        yield writer


def _open(path: Path) -> IO[bytes]:
    """Open a file for appending after its last complete line."""
    if path.exists() and not _ends_with_newline(path):
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    return path.open("ab")


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read(directory: Path) -> StoredRecords:
    """Read all records of a machine."""
    path = directory / RECORDS
    return read_lines(_lines(path), path)


def read_lines(lines: Iterable[bytes], path: Path) -> StoredRecords:
    """Read records from lines. Errors name the path."""
    of_lines = list(_parsed(lines, path, upgraded))
    records = [record for record in of_lines if record is not None]
    return StoredRecords(records, len(of_lines) - len(records))


def sessions(directory: Path) -> dict[str, Header]:
    """Read the headers of all sessions of a machine, by id."""
    path = directory / SESSIONS
    return read_sessions(_lines(path), path)


def read_sessions(lines: Iterable[bytes], path: Path) -> dict[str, Header]:
    """Read headers of sessions from lines, by id. Errors name the path."""
    return {
        header["session"]: header
        for header in _parsed(lines, path, lambda line: msgspec.json.decode(line, type=Header))
    }


def complete_lines(content: bytes) -> list[bytes]:
    return content.split(b"\n")[:-1]


def _lines(path: Path) -> list[bytes]:
    """Read the complete lines of a file."""
    try:
        return complete_lines(path.read_bytes())
    except FileNotFoundError:
        return []


def _parsed(lines: Iterable[bytes], path: Path, read: Callable[[bytes], Parsed]) -> Iterator[Parsed]:
    for number, line in enumerate(lines, 1):
        try:
            yield read(line)
        except (ValueError, RecursionError, DeltamarkError) as error:
            remedy = "remove that line, or move the file away"
            raise DeltamarkError("not a record", f"{path}, line {number}: {error}", remedy) from error
