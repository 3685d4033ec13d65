"""The interface of the engine on Spark: `maintain` turns streaming frames into the changes of a query's answer.

`from_change_types`, `from_debezium`, `from_keyed_values` and `from_upserts` convert change feeds into such frames.
`merge_into` merges the changes of an answer into a table, and `for_each_query` those of several answers. `stored_state`
has the rows and bytes of each shard.
"""

from deltamark.errors import DeltamarkError

try:
    from deltamark.dataflow.spark.answer_table import for_each_query, merge_into
    from deltamark.dataflow.spark.checkpoint import stored_state
    from deltamark.dataflow.spark.feeds import from_change_types, from_debezium, from_keyed_values, from_upserts
    from deltamark.dataflow.spark.maintain import maintain
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing == "deltamark":
        raise
    raise DeltamarkError("a package is missing", missing, "run: pip install 'deltamark[spark]'") from error

__all__ = [
    "for_each_query", "from_change_types", "from_debezium", "from_keyed_values", "from_upserts", "maintain",
    "merge_into", "stored_state",
]  # fmt: skip
