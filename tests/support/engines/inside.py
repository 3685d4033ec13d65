"""The inside of open dataflows and shards, for tests of memory and states."""

from __future__ import annotations

from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.worker import Worker
from deltamark.dataflow.spark.shard import Shard


def worker_of(handle: Dataflow | Shard) -> Worker:
    """Return the worker of this process."""
    return handle._plans.use(lambda plans: plans.worker)
