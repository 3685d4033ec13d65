"""Shards that are alive in this process, with the batch up to which each has come.

One is good for a batch if it belongs to the same run of a query and is not ahead of what has been committed: a task
that failed may have left it ahead, and then it is made again.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamark.dataflow.spark.shard import Shard

MOST_RUNS = 2
"""Shards of older runs are closed."""


@dataclass(frozen=True)
class ShardKey:
    run: str
    stage: int
    shard: int


_alive: dict[ShardKey, tuple[int, Shard]] = {}


def take(key: ShardKey, committed: int) -> tuple[int, Shard] | None:
    """Return a shard and its batch, which is at most the committed one; it is the caller's alone until it is kept."""
    found = _alive.pop(key, None)
    if found is None or found[0] <= committed:
        return found
    found[1].close()
    return None


def keep(key: ShardKey, batch: int, shard: Shard) -> None:
    _alive[key] = batch, shard
    runs = list(dict.fromkeys(each.run for each in reversed(_alive)))
    for old in [each for each in _alive if each.run in runs[MOST_RUNS:]]:
        _alive.pop(old)[1].close()
