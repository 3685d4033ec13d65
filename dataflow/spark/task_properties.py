"""Properties that Spark sets for the tasks of a streaming query."""

from __future__ import annotations

from pyspark import TaskContext

BATCH = "streaming.sql.batchId"
"""The number of the micro-batch: 0, 1, 2 ... since the checkpoint was new."""

RUN = "spark.jobGroup.id"
"""A unique name for each start of a query."""


def task_property(name: str) -> str:
    """Return a property that Spark has set for the jobs of a streaming query."""
    context = TaskContext.get()
    assert context is not None
    value = context.getLocalProperty(name)
    assert value is not None
    return value
