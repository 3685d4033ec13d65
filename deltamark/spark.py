"""The interface of the engine on Spark: `maintain` turns streaming frames into the changes of a query's answer."""

from deltamark.dataflow.spark.maintain import maintain

__all__ = ["maintain"]
