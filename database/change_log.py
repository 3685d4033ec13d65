"""The log of the changes that views follow after their state was saved, PATH.state.log, in a durable database.

After a kill, the tables have the transactions of DuckDB's log, and the state of views is older. Views continue from it
with the changes of this log, so no table is read. The log is no source of truth: it is not flushed to the disk, and it
is used only if it ends with the transaction that the tables have as the last one, whose number is in DuckDB's log too.
Otherwise views are loaded from the tables. A transaction that ended by an error ends the log.

Each part has a checksum:

    head       the token of the state, and the names and the texts of its views
    changes    those of a transaction, with its number, written before it commits
    dropped    the name of a view that is dropped
    mark       the size of DuckDB's log and the fingerprint of the tables' file, after something was written to them
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

import pyarrow as pa

from deltamark.database.files import Files
from deltamark.database.store import Changed

HEAD, CHANGES, DROPPED, MARK = b"h", b"c", b"d", b"m"

PART = struct.Struct("<cQQ")
"""The beginning of a part: its kind, the number of the transaction or 0, and the bytes of its content."""

CHECKSUM, SIZE = struct.Struct("<I"), struct.Struct("<Q")

MIN_BYTES = 64 << 20
"""The bytes up to which a log grows in any case. Not tuned."""

MERGED_ROWS = 1 << 20
"""The logged rows that views follow at once. Not tuned."""


@dataclass(frozen=True)
class State:
    """A saved state of views: its token, the number of the last transaction, and the texts of the views."""

    token: bytes
    number: int
    views: Mapping[str, str]


@dataclass
class Contents:
    """The parts of a log up to the last transaction that the tables have."""

    token: bytes
    views: list[tuple[str, str]]
    """The names and texts of the views whose state was saved."""
    end: int
    """The bytes of these parts."""
    last: int
    """The number of the last transaction, or the one at the time of the state."""
    fingerprint: bytes = b""
    """The fingerprint of the tables' file."""
    log_bytes: int | None = None
    """The size of DuckDB's log after the last transaction, if this log has it."""
    parts: list[tuple[bytes, memoryview]] = field(default_factory=list)
    """The kind and the content of each logged transaction and dropped view."""

    def is_of(self, files: Files) -> bool:
        """Return whether nothing else has changed the tables since the last transaction. files: those that were found.

        A transaction that was killed may have written a part of DuckDB's log, or all of it but no mark.
        """
        return self.fingerprint == files.fingerprint and self.log_bytes in (None, files.log_bytes)

    def records(self) -> Iterator[str | dict[str, list[Changed]]]:
        """Yield the name of each dropped view, and the merged changes of the transactions between, by tables."""
        pieces: dict[str, list[Changed]] = {}
        rows = 0
        for kind, content in self.parts:
            if kind == CHANGES:
                for name, changed in _read(content):
                    pieces.setdefault(name, []).append(changed)
                    rows += changed[0].num_rows
            if pieces and (kind == DROPPED or rows > MERGED_ROWS):
                yield {name: _joined(each) for name, each in pieces.items()}
                pieces, rows = {}, 0
            if kind == DROPPED:
                yield str(content, "utf-8")
        if pieces:
            yield {name: _joined(each) for name, each in pieces.items()}


class ChangeLog:
    """A log to which a database appends. most_bytes: the size at which it ends."""

    def __init__(self, path: Path, file: BinaryIO, most_bytes: int) -> None:
        self._path, self._file = path, file
        self._most_bytes = max(most_bytes, MIN_BYTES)
        self.has_ended = False

    @classmethod
    def begun(cls, path: Path, state: State, files: Files, most_bytes: int) -> Self:
        """Begin a log of the changes after a state, in place of an older one."""
        new = path.with_name(f"{path.name}.new")
        head = json.dumps({"token": state.token.hex(), "views": list(state.views.items())}).encode()
        new.write_bytes(_part(HEAD, state.number, head) + _mark(files))
        new.replace(path)
        return cls(path, path.open("ab", buffering=0), most_bytes)

    @classmethod
    def continued(cls, path: Path, end: int, most_bytes: int) -> Self:
        """Continue a log behind the parts that are valid."""
        file = path.open("ab", buffering=0)
        file.truncate(end)
        return cls(path, file, most_bytes)

    def add(self, number: int, changes: Mapping[str, Sequence[Changed]]) -> None:
        """Append the changes of a transaction that will commit."""
        self._write(_part(CHANGES, number, _written(changes)))

    def drop(self, name: str) -> None:
        """Append the name of a view that will be dropped."""
        self._write(_part(DROPPED, 0, name.encode()))

    def mark(self, files: Files) -> None:
        """Append the state of the files of the tables."""
        self._write(_mark(files))

    def _write(self, part: bytes) -> None:
        if self.has_ended:
            return
        try:
            self._file.write(part)
        except OSError:
            self.end()
        else:
            if self._file.tell() > self._most_bytes:
                self.end()

    def end(self) -> None:
        """Remove the log: the next opening loads views from the tables, unless their state is saved before."""
        self.has_ended = True
        self.close()
        with suppress(OSError):
            self._path.unlink()

    def close(self) -> None:
        self._file.close()


def _part(kind: bytes, number: int, content: bytes) -> bytes:
    whole = PART.pack(kind, number, len(content)) + content
    return whole + CHECKSUM.pack(zlib.crc32(whole))


def _mark(files: Files) -> bytes:
    return _part(MARK, 0, SIZE.pack(files.log_bytes) + files.fingerprint)


def _written(changes: Mapping[str, Sequence[Changed]]) -> bytes:
    """Return changes as streams of Arrow, each behind its size, the name of its table, and its weight."""
    pieces: list[bytes] = []
    for name, each in changes.items():
        for rows, diff in each:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows)
            head, content = json.dumps([name, diff]).encode(), sink.getvalue().to_pybytes()
            pieces += [SIZE.pack(len(head)), head, SIZE.pack(len(content)), content]
    return b"".join(pieces)


def _read(content: memoryview) -> Iterator[tuple[str, Changed]]:
    at = 0
    while at < len(content):
        parts = []
        for _ in range(2):
            (size,) = SIZE.unpack_from(content, at)
            at += SIZE.size + size
            parts.append(content[at - size : at])
        name, diff = json.loads(bytes(parts[0]))
        yield name, (pa.ipc.open_stream(pa.py_buffer(parts[1])).read_all(), diff)


def _parts(content: memoryview) -> Iterator[tuple[bytes, int, memoryview, int]]:
    """Yield the kind, the number, the content and the end of each part, up to the first that is damaged."""
    at = 0
    while at + PART.size <= len(content):
        kind, number, size = PART.unpack_from(content, at)
        end = at + PART.size + size
        checked = content[end : end + CHECKSUM.size]
        if len(checked) < CHECKSUM.size or CHECKSUM.unpack(checked) != (zlib.crc32(content[at:end]),):
            return
        yield kind, number, content[at + PART.size : end], end + CHECKSUM.size
        at = end + CHECKSUM.size


def read_log(path: Path, number: int) -> Contents | None:
    """Return the parts of a log up to a transaction; None if there is no log that ends with it.

    number: that of the last transaction that the tables have. The log may have one more, which was not committed.
    """
    try:
        with path.open("rb") as file:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # there is none, or it is empty
        return None
    parts = _parts(content)
    kind, first, head, end = next(parts, (b"", 0, memoryview(b""), 0))
    if kind != HEAD:
        return None
    read = json.loads(bytes(head))
    found = Contents(bytes.fromhex(read["token"]), [(name, text) for name, text in read["views"]], end, first)
    for kind, each, part, end in parts:
        found.log_bytes = None
        if kind == CHANGES and each > number:
            break
        if kind == MARK:
            (found.log_bytes,), found.fingerprint = SIZE.unpack_from(part), bytes(part[SIZE.size :])
        else:
            found.parts.append((kind, part))
        found.last = each if kind == CHANGES else found.last
        found.end = end
    return found if found.last == number else None


def _joined(pieces: Sequence[Changed]) -> list[Changed]:
    """Join the pieces with the same weight and the same columns."""
    groups: dict[tuple[int, str], list[pa.Table]] = {}
    for rows, diff in pieces:
        groups.setdefault((diff, rows.schema.to_string()), []).append(rows)
    return [(pa.concat_tables(each).combine_chunks(), diff) for (diff, _), each in groups.items()]
