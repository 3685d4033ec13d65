"""The log of a shard in Spark's state store: entries with the net changes of one or more batches, edge by edge.

The state that follows from a log stays alive in its process. It is used only by the run of the query that made it, and
only if its last batch is committed: a task that failed may have left it ahead of the log.

When the entries behind the first have grown as large as the first, all of them are merged into one, if rows of them
may cancel or add up. So a log has at most about twice the size of its net changes. Rows are written once if they are
only inserted, or if each entry has keys of its own, such as the orders of its batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from math import ceil
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from deltamark import __version__
from deltamark.dataflow.spark.net_changes import NetChanges, consolidated, from_bytes, key_range, may_shrink, to_bytes
from deltamark.dataflow.spark.planning.staged_plan import Edge
from deltamark.errors import DeltamarkError

INDEX = "index"
"""The name under which the index of the entries is stored."""

MAX_VALUE_BYTES = 1 << 26
"""The size of one value in the state store; a larger entry is stored in parts. Not measured."""

MIN_MERGED_ENTRIES = 8
"""The number of entries of an edge from which they are merged, if the merged entry may be smaller; not measured."""

MIN_COMMON_KEYS = 8
"""Entries are merged if they share at least this part, 1 / 8, of their ranges of keys; not measured."""

MAX_ENTRIES = 1000
"""The number of entries of an edge from which they are merged in any case; not measured."""

MAX_RUNS = 2
"""The number of most recently used runs whose states stay alive; not measured."""


@dataclass(frozen=True)
class LogEntry:
    """The net changes of the batches after `since` up to `batch`: their size in bytes, and their number of rows."""

    since: int
    batch: int
    size: int
    rows: int
    may_shrink: bool
    """Whether the entry may become smaller when it is merged with others that have equal keys."""
    low: int
    high: int
    """The least and the largest key; see `key_range`."""

    @property
    def parts(self) -> range:
        return range(max(ceil(self.size / MAX_VALUE_BYTES), 1))


@dataclass(frozen=True)
class LogIndex:
    """The last batch of a log, and the entries of each edge in the order of their batches."""

    batch: int = -1
    entries: Mapping[str, Sequence[LogEntry]] = field(default_factory=dict)
    identity: Mapping[str, str] = field(default_factory=dict)
    """The properties of the query that has written the log."""

    @classmethod
    def from_bytes(cls, content: bytes) -> LogIndex:
        batch, rows, identity = json.loads(content)
        return cls(batch, {edge: [LogEntry(*row) for row in listed] for edge, listed in rows.items()}, identity)

    def to_bytes(self) -> bytes:
        rows = {edge: [astuple(entry) for entry in listed] for edge, listed in self.entries.items()}
        return json.dumps([self.batch, rows, dict(self.identity)]).encode()

    @property
    def rows(self) -> int:
        return sum(entry.rows for listed in self.entries.values() for entry in listed)

    @property
    def size(self) -> int:
        return sum(entry.size for listed in self.entries.values() for entry in listed)

    def divides(self, batch: int) -> bool:
        """Return whether the batches after a given one have entries of their own."""
        return not any(each.since < batch < each.batch for entries in self.entries.values() for each in entries)


class StoredContents(Protocol):
    """The contents of a log by their names: the index and parts of entries."""

    def getValue(self, key: tuple[str]) -> tuple[Any, ...] | None: ...  # noqa: N802 (Spark's name)


class ChangingContents(StoredContents, Protocol):
    """Contents that a log is written to, such as a `MapState` of Spark."""

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None: ...  # noqa: N802 (Spark's name)

    def removeKey(self, key: tuple[str]) -> None: ...  # noqa: N802 (Spark's name)


class StoredLog:
    """The log of a shard, which is only read."""

    def __init__(self, contents: StoredContents) -> None:
        self._stored = contents

    def index(self, identity: Mapping[str, str]) -> LogIndex:
        """Return the index of the log; refuse a log that a query with another identity has written."""
        stored = self._stored.getValue((INDEX,))
        if stored is None:
            return LogIndex(identity=identity)
        index = LogIndex.from_bytes(bytes(stored[0]))
        refuse_another(index.identity, identity)
        return index

    def net_changes_after(self, index: LogIndex, batch: int) -> NetChanges:
        """Return the net changes of all batches after a given one."""
        net = {}
        for edge, entries in index.entries.items():
            if newer := [self._read(edge, entry) for entry in entries if entry.batch > batch]:
                net[edge] = pa.concat_tables(newer)
        return net

    def _read(self, edge: str, entry: LogEntry) -> pa.Table:
        values = [self._stored.getValue((_name(edge, entry.batch, part),)) or () for part in entry.parts]
        return from_bytes(b"".join(bytes(content) for (content,) in values))


class StateLog(StoredLog):
    """The log of the shard that Spark is running."""

    def __init__(self, contents: ChangingContents) -> None:
        super().__init__(contents)
        self._contents = contents

    def append(self, index: LogIndex, batch: int, net: NetChanges, edges: Mapping[str, Edge]) -> None:
        """Add the net changes of a batch, and merge entries where that is due."""
        entries = dict(index.entries)
        for name, table in net.items():
            if table.num_rows:
                edge = edges[name]
                newest = self._write(edge, index.batch, batch, table, may_shrink=may_shrink(edge, table))
                entries[name] = [*entries.get(name, ()), newest]
                if _is_merge_due(entries[name]):
                    entries[name] = [self._merged(edge, entries[name], table)]
        self._contents.updateValue((INDEX,), (LogIndex(batch, entries, index.identity).to_bytes(),))

    def _merged(self, edge: Edge, entries: Sequence[LogEntry], newest: pa.Table) -> LogEntry:
        """Replace all entries of an edge by one. newest: the content of the last of them."""
        older = [self._read(edge.name, entry) for entry in entries[:-1]]
        table = consolidated(edge, pa.concat_tables([*older, newest]))
        for entry in entries:
            for part in entry.parts:
                self._contents.removeKey((_name(edge.name, entry.batch, part),))
        return self._write(edge, -1, entries[-1].batch, table, may_shrink=False)

    def _write(self, edge: Edge, since: int, batch: int, table: pa.Table, *, may_shrink: bool) -> LogEntry:
        content = to_bytes(table)
        entry = LogEntry(since, batch, len(content), table.num_rows, may_shrink, *key_range(edge, table))
        for part in entry.parts:
            piece = content[part * MAX_VALUE_BYTES : (part + 1) * MAX_VALUE_BYTES]
            self._contents.updateValue((_name(edge.name, batch, part),), (piece,))
        return entry


class OfRun(Protocol):
    """The identity of a shard in one run of a query."""

    @property
    def run(self) -> str: ...


class Closable(Protocol):
    def close(self) -> None: ...


KeyT = TypeVar("KeyT", bound=OfRun)
StateT = TypeVar("StateT", bound=Closable)


class LiveStates(dict[KeyT, tuple[int, StateT]]):
    """The states of shards that stay alive in a process, each with the last batch that it has applied."""

    def take(self, key: KeyT, index: LogIndex) -> tuple[int, StateT] | None:
        """Remove a state; return it with its last batch, or close it if the log cannot bring it up to date."""
        found = self.pop(key, None)
        if found is None or (found[0] <= index.batch and index.divides(found[0])):
            return found
        found[1].close()
        return None

    def keep(self, key: KeyT, batch: int, state: StateT) -> None:
        """Keep a state that has applied a batch, and close those of old runs."""
        self[key] = batch, state
        recent_runs = list(dict.fromkeys(each.run for each in reversed(self)))[:MAX_RUNS]
        for old in [each for each in self if each.run not in recent_runs]:
            self.pop(old)[1].close()


FORMAT = 1
"""The number of the format of stored state.

Raise it with every change after which an older log is not the state of the same shard: of the index and the tables of a
log, of the shards that own keys, and of the rows that an operator makes of equal rows.
"""

ENGINE = "engine"
"""The version of the engine that began the state. Another version continues it, if all other properties are equal."""

SHARDS, PLANNED_SHARDS = "shards", "planned shards"
"""The properties of a query that may change, because its state can be dealt to another number of shards."""


def format_identity() -> dict[str, str]:
    """Return what this version of the engine says of the state that it stores."""
    return {"format": str(FORMAT), ENGINE: __version__}


def refuse_another(stored: Mapping[str, str], identity: Mapping[str, str], where: str = "") -> None:
    """Refuse the state of a query that differs in a property. where: the directory of the state, if it is known."""
    for name in {**identity, **stored}:
        if name != ENGINE and stored.get(name) != identity.get(name):
            actual = f"its {name} is {stored.get(name)}, not {identity.get(name)}{where and f' ({where})'}"
            raise DeltamarkError("the checkpoint does not match", actual, _remedy(name, stored, identity))


def _remedy(name: str, stored: Mapping[str, str], identity: Mapping[str, str]) -> str:
    if name in (SHARDS, PLANNED_SHARDS):
        return "give its path as checkpoint=, so that its state is dealt to these shards"
    if name in ("format", "edges", "code") or stored.get(ENGINE) != identity.get(ENGINE):
        version = stored.get(ENGINE, "that wrote it")
        return (
            f"continue it with the engine {version}, or begin anew: another directory, and an empty table of the answer"
        )
    return "repeat the options of the first run, or give another directory"


def _name(edge: str, batch: int, part: int) -> str:
    return f"{edge} {batch} {part}"


def _is_merge_due(entries: Sequence[LogEntry]) -> bool:
    if len(entries) >= MAX_ENTRIES:
        return _have_doubled(entries)
    some = len(entries) >= MIN_MERGED_ENTRIES and any(each.may_shrink for each in entries)
    return some and _have_doubled(entries) and _share_keys(entries)


def _have_doubled(entries: Sequence[LogEntry]) -> bool:
    return sum(each.size for each in entries[1:]) >= entries[0].size


def _share_keys(entries: Sequence[LogEntry]) -> bool:
    """Return whether the ranges of keys of some entries overlap by a share that makes a merge worth its time."""
    common, last = 0, min(each.low for each in entries)
    for entry in sorted(entries, key=lambda each: each.low):
        common += max(min(entry.high, last) - entry.low, 0)
        last = max(last, entry.high)
    return MIN_COMMON_KEYS * common >= sum(each.high - each.low for each in entries)
