"""Files of statements with the expected rows or errors of each, in a small form of sqllogictest.

Records are separated by empty lines. Lines that begin with # are comments.

    statement            the statement must succeed
    INSERT INTO t VALUES (1)

    error                the error must contain the text behind the line
    SELECT * FROM nowhere
    ----
    does not exist

    query                rows, in any order, with ` | ` between values; `query ordered` keeps the order
    SELECT * FROM t
    ----
    1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deltamark import Connection, DeltamarkError

SEPARATOR = "----"


@dataclass(frozen=True)
class Record:
    """A statement, and its expected lines."""

    line: int
    kind: str
    text: str
    expected: tuple[str, ...]


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a file."""
    begin, lines = 1, list[str]()
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            begin = begin if lines else number
            lines.append(line)
        elif lines:
            yield _record(begin, lines)
            lines = []


def _record(line: int, lines: list[str]) -> Record:
    at = lines.index(SEPARATOR) if SEPARATOR in lines else len(lines)
    return Record(line, lines[0], "\n".join(lines[1:at]), tuple(lines[at + 1 :]))


def check(connection: Connection, record: Record) -> None:
    """Run the statement of a record, and compare its rows or its error."""
    match record.kind:
        case "statement":
            connection.execute(record.text)
        case "error":
            with pytest.raises(DeltamarkError) as error:
                connection.execute(record.text)
            (part,) = record.expected
            assert part in str(error.value)
        case "query" | "query ordered":
            found = lines_of(connection.execute(record.text).fetchall())
            ordered = record.kind == "query ordered"
            assert (found if ordered else sorted(found)) == list(
                record.expected if ordered else sorted(record.expected)
            )
        case other:
            raise AssertionError(f"line {record.line}: no kind of record: {other}")


def lines_of(rows: list[tuple[object, ...]]) -> list[str]:
    return [" | ".join("NULL" if each is None else str(each) or "''" for each in row) for row in rows]
