"""A shard's log in Spark's state store: entries, each the net of what came in some batches (dataflow/spark/log.py).

When the entries behind the first have grown as large as that one they become one, if some of it may cancel or add up:
so what is kept is at most about twice as large as what it stands for. What only comes is not written again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from dataflow.spark.edges import Edge
from dataflow.spark.log import Net, from_bytes, shrinks, to_bytes, together

MOST_BYTES, MANY, MOST = 1 << 26, 8, 1000
"""Of a piece of an entry; so many entries are worth putting together, and so many are even if nothing is saved."""


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


class StateLog:
    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._contents: Any = handle.getMapState("log", "batch bigint, piece int", "content binary")
        self._list: Any = handle.getValueState("entries", "entries string")

    def entries(self) -> list[Entry]:
        """Return the entries of the group at hand."""
        if not self._list.exists():
            return []
        return [Entry(*each) for each in json.loads(self._list.get()[0])]

    def read(self, entry: Entry) -> Net:
        pieces = (self._contents.getValue((entry.batch, piece))[0] for piece in range(entry.pieces))
        return from_bytes(b"".join(map(bytes, pieces)))

    def append(self, entries: Sequence[Entry], batch: int, net: Net, edges: Mapping[str, Edge]) -> None:
        """Add the net of a batch, and put entries together where they have become many."""
        since = entries[-1].batch if entries else -1
        kept = [*entries, self._write(since, batch, net, may_shrink=shrinks(edges, net))]
        many = MANY if any(each.shrinks for each in kept) else MOST
        if len(kept) >= many and sum(each.size for each in kept[1:]) >= kept[0].size:
            whole = together(edges, [*map(self.read, kept[:-1]), net])
            for each in kept:
                for piece in range(each.pieces):
                    self._contents.removeKey((each.batch, piece))
            kept = [self._write(-1, batch, whole, may_shrink=False)]
        self._list.update((json.dumps([astuple(each) for each in kept]),))

    def _write(self, since: int, batch: int, net: Net, *, may_shrink: bool) -> Entry:
        content = to_bytes(net)
        entry = Entry(since, batch, len(content), may_shrink)
        for piece in range(entry.pieces):
            part = content[piece * MOST_BYTES : (piece + 1) * MOST_BYTES]
            self._contents.updateValue((batch, piece), (part,))
        return entry
