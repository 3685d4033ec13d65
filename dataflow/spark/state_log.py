"""A shard's log in Spark's state store: of each edge entries, each the net of what came in some batches.

When the entries behind the first have grown as large as that one they become one, if some of it may cancel or add up:
so what is kept is at most about twice as large as what it stands for. What only comes is not written again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import pyarrow as pa

from deltamark.dataflow.spark.net_changes import Net, from_bytes, shrinks, summed, to_bytes
from deltamark.dataflow.spark.planning.edges import Edge

MOST_BYTES, MANY, MOST = 1 << 26, 8, 1000
"""Of a piece of an entry; so many of an edge are worth putting together, and so many are even if nothing is saved."""


@dataclass(frozen=True)
class Entry:
    """The net of what came after the batch `since`, up to and with `batch`; and its size in bytes."""

    since: int
    batch: int
    size: int
    shrinks: bool
    """May it become less when it is put together with others?"""

    @property
    def pieces(self) -> int:
        return max(math.ceil(self.size / MOST_BYTES), 1)


@dataclass(frozen=True)
class Kept:
    """What a log holds: the last batch, and the entries of each edge that has any, in order."""

    batch: int = -1
    entries: Mapping[str, Sequence[Entry]] = field(default_factory=dict)

    def divides(self, batch: int) -> bool:
        """Is what came after a batch there by itself?"""
        return not any(each.since < batch < each.batch for entries in self.entries.values() for each in entries)


class StateLog:
    """Of a map of contents and a value that lists them, which are the state of the group at hand."""

    def __init__(self, contents: Any, kept: Any) -> None:
        self._contents, self._kept = contents, kept

    def kept(self) -> Kept:
        """Return what there is."""
        if not self._kept.exists():
            return Kept()
        batch, entries = json.loads(self._kept.get()[0])
        return Kept(batch, {edge: [Entry(*each) for each in found] for edge, found in entries.items()})

    def after(self, kept: Kept, batch: int) -> Net:
        """Return what came after a batch."""
        found = {}
        for edge, entries in kept.entries.items():
            if new := [self._read(edge, each) for each in entries if each.batch > batch]:
                found[edge] = pa.concat_tables(new)
        return found

    def append(self, kept: Kept, batch: int, net: Net, edges: Mapping[str, Edge]) -> None:
        """Add the net of a batch, and put entries together where they have become many."""
        entries = dict(kept.entries)
        for edge, table in net.items():
            if table.num_rows:
                entries[edge] = self._appended(edges[edge], entries.get(edge, ()), kept.batch, batch, table)
        held = {edge: [astuple(each) for each in found] for edge, found in entries.items()}
        self._kept.update((json.dumps([batch, held]),))

    def _appended(
        self, edge: Edge, entries: Sequence[Entry], since: int, batch: int, table: pa.Table
    ) -> Sequence[Entry]:
        kept = [*entries, self._write(edge.name, since, batch, table, may_shrink=shrinks(edge, table))]
        many = MANY if any(each.shrinks for each in kept) else MOST
        if len(kept) < many or sum(each.size for each in kept[1:]) < kept[0].size:
            return kept
        whole = summed(edge, pa.concat_tables([*(self._read(edge.name, each) for each in entries), table]))
        for each in kept:
            for piece in range(each.pieces):
                self._contents.removeKey((edge.name, each.batch, piece))
        return [self._write(edge.name, -1, batch, whole, may_shrink=False)]

    def _read(self, edge: str, entry: Entry) -> pa.Table:
        pieces = (self._contents.getValue((edge, entry.batch, piece))[0] for piece in range(entry.pieces))
        return from_bytes(b"".join(map(bytes, pieces)))

    def _write(self, edge: str, since: int, batch: int, table: pa.Table, *, may_shrink: bool) -> Entry:
        content = to_bytes(table)
        entry = Entry(since, batch, len(content), may_shrink)
        for piece in range(entry.pieces):
            part = content[piece * MOST_BYTES : (piece + 1) * MOST_BYTES]
            self._contents.updateValue((edge, batch, piece), (part,))
        return entry
