"""The shards that are alive in this process, each with the last batch that it has applied.

A cached shard is used only by the run of the query that created it, and only if its last batch is committed. A task
that failed may have left a shard ahead of the committed batches; that shard is closed and created anew.
"""

from __future__ import annotations

from deltamark.dataflow.spark.messages import ShardKey
from deltamark.dataflow.spark.shard import Shard

MAX_RUNS = 2
"""The number of most recently used runs whose shards stay alive; not measured."""


_shards: dict[ShardKey, tuple[int, Shard]] = {}


def take(key: ShardKey, committed: int) -> tuple[int, Shard] | None:
    """Remove a shard from the cache; return its last batch, which is at most the committed one, and the shard."""
    cached = _shards.pop(key, None)
    if cached is None or cached[0] <= committed:
        return cached
    cached[1].close()
    return None


def put(key: ShardKey, batch: int, shard: Shard) -> None:
    """Cache a shard that has applied a batch, and close the shards of old runs."""
    _shards[key] = batch, shard
    recent_runs = list(dict.fromkeys(each.run for each in reversed(_shards)))[:MAX_RUNS]
    for old in [each for each in _shards if each.run not in recent_runs]:
        _shards.pop(old)[1].close()
