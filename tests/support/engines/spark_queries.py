"""Streaming queries of Spark in tests."""

from __future__ import annotations

from pyspark.errors import StreamingQueryException

from deltamark.dataflow.spark.failures import MAX_SLOW_STARTS, SLOW_START


def run(target, has_ended=lambda running: running.awaitTermination() or True):
    """Run a query until it has ended. Start it again if a Python process was late, which a busy machine causes."""
    for start in range(MAX_SLOW_STARTS + 1):
        running = target.start()
        try:
            while not has_ended(running):
                running.awaitTermination(0.2)
            break
        except StreamingQueryException as error:
            if SLOW_START not in str(error) or start == MAX_SLOW_STARTS:
                raise
        finally:
            running.stop()
