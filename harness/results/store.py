"""Where records are kept: `records.jsonl` of a directory a machine, appended to, by one writer at a time. What other
suites find lies in `findings.jsonl` beside it.

A line is whole or was cut off by a crash, and then it is the last: it is left out, and repaired by the next writer.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.results.finding import Finding
from deltamark.harness.results.record import Record, from_json, to_line
from deltamark.harness.results.session import Header, header_from_json

RECORDS, FINDINGS, SESSIONS = "records.jsonl", "findings.jsonl", "sessions.jsonl"
LOCK, STOP = "lock", "STOP"

Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class Read:
    """What was read: records, and how many lines are of other versions, and so not comparable."""

    records: list[Record]
    foreign: int


class Writer:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._records = _open(directory / RECORDS)

    def add(self, record: Record) -> None:
        _write(self._records, to_line(record))

    def add_findings(self, found: Sequence[Finding]) -> None:
        """Add all rows of a cell at once, so that all of them are there, or it is measured again."""
        with _open(self._directory / FINDINGS) as file:
            _write(file, "".join(map(to_line, found)))

    def add_session(self, header: Mapping[str, Any]) -> None:
        with _open(self._directory / SESSIONS) as file:
            _write(file, json.dumps(header, separators=(",", ":")) + "\n")

    def take_stop(self) -> bool:
        """Was there a file STOP, here or above? It is taken away."""
        found = [path for path in (self._directory / STOP, self._directory.parent / STOP) if path.exists()]
        for path in found:
            path.unlink(missing_ok=True)
        return bool(found)

    def close(self) -> None:
        self._records.close()


@contextmanager
def writing(directory: Path) -> Iterator[Writer]:
    """Open the records of a machine to add to them, if nobody else does."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / LOCK).open("a+", encoding="utf-8", errors="replace") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            who = lock.read().strip() or "somebody"
            remedy = f"wait for it, or stop it: touch {directory.parent / STOP}"
            raise DeltamarkError(f"{directory} is being written to", who, remedy) from None
        with naming(directory / LOCK):
            lock.truncate(0)
            lock.write(f"process {os.getpid()}\n")
            lock.flush()
        writer = Writer(directory)
        writer.take_stop()  # whom an older one meant has ended
        try:
            yield writer
        finally:
            writer.close()


def _write(file: IO[str], lines: str) -> None:
    with naming(file.name):
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def _open(path: Path) -> IO[str]:
    """Open to append, after the last whole line."""
    if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)
    return path.open("a", encoding="utf-8")


def read(directory: Path) -> Read:
    """Read all records of a machine."""
    path = directory / RECORDS
    return read_lines(_lines(path), path)


def read_lines(lines: Iterable[str | bytes], path: Path) -> Read:
    """Read records from lines. path: what errors name."""
    read = list(_parsed(lines, path, lambda raw: from_json(Record, raw)))
    records = [each for each in read if each is not None]
    return Read(records, len(read) - len(records))


def findings(directory: Path) -> list[Finding]:
    """Read what suites have found on a machine."""
    path = directory / FINDINGS
    return [each for each in _parsed(_lines(path), path, lambda raw: from_json(Finding, raw)) if each is not None]


def sessions(directory: Path) -> dict[str, Header]:
    """Read the headers of all sessions of a machine, by id."""
    path = directory / SESSIONS
    return {header["session"]: header for header in _parsed(_lines(path), path, header_from_json)}


def _lines(path: Path) -> list[bytes]:
    """Read the whole lines of a file; what follows the last one was cut off by a crash."""
    try:
        return path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def _parsed(lines: Iterable[str | bytes], path: Path, read: Callable[[Any], Parsed]) -> Iterator[Parsed]:
    for number, line in enumerate(lines, 1):
        try:
            words = line if isinstance(line, str) else line.decode()
            yield read(json.loads(words))
        except (ValueError, RecursionError, DeltamarkError) as error:
            remedy = "remove that line, or move the file away"
            raise DeltamarkError("not a record", f"{path}, line {number}: {error}", remedy) from error


def latest(records: Iterable[Record]) -> dict[str, Record]:
    """Return the last record of each cell, in the order in which they were made."""
    found: dict[str, Record] = {}
    for record in records:
        found.pop(record.cell, None)
        found[record.cell] = record
    return found
