"""The inside of open dataflows and shards, for tests of memory and states."""

from __future__ import annotations

from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.worker import Worker
from deltamark.dataflow.spark.shard import Shard


def worker_of(handle: Dataflow | Shard) -> Worker:
    """Return the worker of this process."""
    if isinstance(handle, Shard):
        return handle._worker.use(lambda worker: worker)
    return handle._runtime.use(lambda runtime: runtime.worker)
