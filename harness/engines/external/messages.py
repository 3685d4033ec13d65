"""The messages of the engine protocol, versions 1 and 2: docs/protocol.md describes them.

The texts of programs (names, messages, errors) are cleaned, since they reach terminals, tables and records.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict, force_setattr

from deltamark.harness.engines.base import Output

PROTOCOL = 2
"""The highest version that the harness speaks, which it offers."""

PROTOCOLS = (1, PROTOCOL)
"""The versions that a program may reply with."""

Columns = list[tuple[str, str]]
"""The names and the types of columns."""


Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0)]


MAX_TEXT = 500
"""The number of characters of a text of a program, at most. Not tuned."""


def plain(text: str) -> str:
    r"""Return the beginning of a text as one line, in which escapes stand for characters that cannot be printed.

    >>> plain("mine\n1.0 \x1b[2J")
    'mine 1.0 \\x1b[2J'
    """
    words = " ".join(text[: 2 * MAX_TEXT].split())
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in words)
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}..."


class Request(Struct, frozen=True, tag_field="do", tag=str.lower):
    """A request to a program."""


class Hello(Request, frozen=True):
    protocol: int = PROTOCOL


class RelationColumns(Struct, frozen=True, omit_defaults=True):
    """The columns of a relation, a bound of the number of its live rows, and its keys."""

    columns: Columns
    rows: int
    nullable: list[str] = []
    """The columns that may have NULL."""
    keys: list[list[str]] = []
    """Lists of columns in which no two live rows have equal values."""


class Open(Request, frozen=True, kw_only=True, omit_defaults=True):
    query: str
    sql: str
    parameters: dict[str, object]
    workload: str
    deletions: bool
    """Whether rows may leave."""
    logical: int
    workers: int
    collect: bool
    """Whether the harness will ask for the changes."""
    directory: str
    relations: dict[str, RelationColumns]
    answer: Columns
    shared: bool = False
    """Whether other queries will be attached to the rows of this one."""


class Restore(Open, frozen=True, kw_only=True):
    """Opens a query in the state of a snapshot."""

    snapshot: str
    """The directory of the snapshot."""
    until: int
    """The last logical time whose changes the harness has."""


class Attach(Open, frozen=True, kw_only=True):
    """Opens one more query over the rows that were fed so far."""


class Feed(Request, frozen=True, omit_defaults=True):
    batch: int
    time: int
    """The last logical time of the batch."""
    relations: dict[str, str]
    """The names of the files of rows."""
    ends: list[int] | None = None
    """The last logical times of several batches; None for one batch."""


class Apply(Request, frozen=True): ...


class Changes(Request, frozen=True, omit_defaults=True):
    query: str = ""
    """The query whose changes are wanted, if several are open."""


class Answer(Request, frozen=True, omit_defaults=True):
    query: str = ""
    """The query whose answer is wanted, if several are open."""


class TakeSnapshot(Request, frozen=True, tag="snapshot"):
    directory: str
    """An empty directory for the snapshot."""


class State(Request, frozen=True): ...


class End(Request, frozen=True): ...


class Close(Request, frozen=True): ...


class Reply(Struct, frozen=True, kw_only=True):
    """The reply to a request, whose texts are plain. error: the reason why the program cannot fulfil it."""

    error: str | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, str):
                force_setattr(self, name, plain(value))


class HelloReply(Reply, frozen=True, kw_only=True):
    protocol: int
    name: str
    output: Output
    maintains: bool = True
    max_workers: Annotated[int, Meta(ge=1)] | None = None
    session: bool = False
    several: bool = False
    """Whether the program takes several batches in one request."""
    nulls: bool = False
    """Whether the program takes NULL in its inputs."""
    deletions: bool = True
    """Whether the program takes rows that leave."""
    snapshots: bool = False
    """Whether the program writes snapshots and restores them."""
    attaches: bool = False
    """Whether the program takes further queries over rows that were fed."""


class OpenReply(Reply, frozen=True, kw_only=True):
    refused: str | None = None
    maintains: bool = True


class RestoreReply(OpenReply, frozen=True, kw_only=True):
    time: Annotated[int, Meta(ge=-1, le=2**63 - 1)] | None = None
    """The last logical time of the rows that the engine has, which every reply but a refusal names; -1: no rows."""


class SnapshotReply(Reply, frozen=True, kw_only=True):
    """The reply to `snapshot`. bytes: the size of the snapshot in its directory."""

    bytes: Count


class AttachReply(OpenReply, frozen=True, kw_only=True):
    changes: Count = 0
    """The number of changes of the first answer, or of its rows."""


class ApplyReply(Reply, frozen=True, kw_only=True):
    changes: Count
    seconds: Seconds | None = None


class ApplyAllReply(Reply, frozen=True, kw_only=True):
    """The reply if the last `feed` had several batches: an element for each."""

    changes: list[Count]
    seconds: list[Seconds]


class FileReply(Reply, frozen=True, kw_only=True):
    file: str


class StateReply(Reply, frozen=True, kw_only=True):
    rows: Count = 0
