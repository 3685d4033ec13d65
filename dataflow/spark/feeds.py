"""Change feeds, in the forms that tables and databases publish, as frames of rows with weights.

Each function takes a frame in one form, and returns a frame for `maintain(..., weight="diff")`: the columns of the
rows, and the column `diff`, which is 1 for a row that enters the table and -1 for a row that leaves it.

- Feeds with the old rows are converted by expressions, row by row: `from_change_types`, `from_debezium`.
- Feeds without the old rows need the newest row of each key: `from_upserts`, `from_keyed_values`, and `from_debezium`
  with a key. A stateful operator keeps it in Spark's state store (`upserts.py`).

An event that cannot be converted ends the query with an error that shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from deltamark.dataflow.spark.columns import Names, column, listed, require
from deltamark.dataflow.spark.upserts import DELETED, DIFF, ORDER, changes_by_key
from deltamark.errors import DeltamarkError, unknown

CHANGE_TYPE = "_change_type"
METADATA = (CHANGE_TYPE, "_commit_version", "_commit_timestamp", "_commit_snapshot_id", "_change_ordinal")
"""The columns of change feeds of Delta, Iceberg and Spark that are no columns of the rows."""

ENTERING = ("insert", "update_postimage", "update_after")
LEAVING = ("delete", "update_preimage", "update_before")
"""The change types of rows that enter and leave a table, in lower case; the third ones are Iceberg's."""

FEED = "the feed"
"""A description of the frame in errors."""

OP, BEFORE, AFTER = "op", "before", "after"
"""The columns of Debezium's events."""

KNOWN = "known are c, r, u and d"


def from_change_types(frame: DataFrame) -> DataFrame:
    """Convert the change feed of Delta, of Iceberg or of Spark's CHANGES, which has the column `_change_type`.

    The columns about the commit are dropped. Order does not matter, because the feed has the old rows.
    """
    require(frame, [CHANGE_TYPE], FEED)
    kind = f.lower(f.col(CHANGE_TYPE))
    weight = f.when(kind.isin(*ENTERING), 1).when(kind.isin(*LEAVING), -1)
    remedy = f"known are {', '.join((*ENTERING, *LEAVING))}"
    weight = weight.otherwise(_refused("an unknown change type", f.col(CHANGE_TYPE), remedy))
    values = [name for name in frame.columns if name not in METADATA]
    _refuse_weights(values)
    return frame.select(*map(column, values), weight.cast("bigint").alias(DIFF))


def from_debezium(
    frame: DataFrame, *, key: Names = (), order: str | None = None, shards: int | None = None
) -> DataFrame:
    """Convert Debezium's events, which have the columns `op`, `before` and `after`.

    Without a key, `before` must be the whole old row, and each event must arrive once. With a key, `before` is only
    read for the keys of deletions, and events may arrive again: see `from_upserts` for order and shards. Events without
    `op` are tombstones, and are skipped.
    """
    require(frame, [OP, BEFORE, AFTER], FEED)
    values = _fields(frame, AFTER)
    _refuse_weights(values)
    events = frame.where(f.col(OP).isNotNull())
    if keys := listed(key):
        return _from_debezium_by_key(events, values, keys, order, shards)
    old, new = _side(BEFORE, -1, values), _side(AFTER, 1, values)
    rows = (
        f.when(f.col(OP).isin("c", "r"), f.array(new))
        .when(f.col(OP) == "u", f.array(old, new))
        .when(f.col(OP) == "d", f.array(old))
        .otherwise(_refused("an unknown operation of Debezium", f.col(OP), KNOWN))
    )
    exploded = events.select(f.explode(rows).alias("row"))
    return exploded.select(*(f.col("row").getField(name).alias(name) for name in (*values, DIFF)))


def from_upserts(
    frame: DataFrame, *, key: Names, order: str | None = None, deleted: str | None = None, shards: int | None = None
) -> DataFrame:
    """Convert rows by key, each of which replaces the row with the same key, if there is one.

    order: the column by which the newest row of a key is found, such as an offset or a version. A row that is older
    than the present one is ignored; the order of deleted keys is forgotten. Without `order`, a row replaces those of
    earlier micro-batches, and two different rows of one key in one micro-batch are an error. So are two different rows
    with equal orders. deleted: the column that is true if the key is deleted; it is dropped, and the other columns of
    such a row are not read. shards: the parts of the state, as many as `maintain` gets.
    """
    keys = listed(key)
    require(frame, [*keys, *(name for name in (order, deleted) if name is not None)], FEED)
    values = [name for name in frame.columns if name != deleted]
    is_deleted = f.expr("false") if deleted is None else column(deleted)
    columns = {name: column(name) for name in values}
    return _by_key(frame, columns, keys, order=order, deleted=is_deleted, shards=shards)


def from_keyed_values(
    frame: DataFrame, *, key: Names, value: str = "value", order: str | None = "offset", shards: int | None = None
) -> DataFrame:
    """Convert the messages of a compacted topic of Kafka: keys and values, where a missing value deletes the key.

    key: the columns that were read from the keys of messages. value: the column that was read from the values, a struct
    that is NULL for a tombstone. The rows have the columns of the key, and the other fields of the value. order: as for
    `from_upserts`; the messages of a key have ascending offsets, because they are in one partition.
    """
    keys = listed(key)
    require(frame, [*keys, value, *([order] if order is not None else [])], FEED)
    columns = {name: column(name) for name in keys}
    columns |= {name: _field(value, name) for name in _fields(frame, value) if name not in columns}
    return _by_key(frame, columns, keys, order=order, deleted=column(value).isNull(), shards=shards)


def _from_debezium_by_key(
    events: DataFrame, values: Sequence[str], keys: Sequence[str], order: str | None, shards: int | None
) -> DataFrame:
    for name in keys:
        if name not in values:
            raise unknown(f"field of {AFTER}", name, values)
    require(events, [order] if order is not None else [], FEED)
    columns = {name: _field(AFTER, name) for name in values}
    columns |= {name: f.coalesce(_field(AFTER, name), _field(BEFORE, name)) for name in keys}
    is_present = f.col(OP).isin("c", "r", "u") & column(AFTER).isNotNull()
    refused = _refused("an event without a row, or of an unknown operation", f.col(OP), KNOWN)
    deleted = f.when(f.col(OP) == "d", f.expr("true")).when(is_present, f.expr("false")).otherwise(refused)
    return _by_key(events, columns, keys, order=order, deleted=deleted, shards=shards)


def _by_key(  # noqa: PLR0913 (the parts of an upsert)
    frame: DataFrame, columns: Mapping[str, Column], keys: Sequence[str], *, order: str | None, deleted: Column,
    shards: int | None,
) -> DataFrame:  # fmt: skip
    """Let the stateful operator convert upserts. The values of a deleted key are NULL, so equal deletions are equal."""
    if not keys:
        raise DeltamarkError("upserts without a key", "()", "give key, the columns in which no two rows agree")
    _refuse_weights(list(columns))
    marked = frame.select("*", f.coalesce(deleted, f.expr("false")).alias(DELETED))
    values = [(each if name in keys else f.when(~column(DELETED), each)).alias(name) for name, each in columns.items()]
    ordering = [] if order is None else [column(order).alias(ORDER)]
    return changes_by_key(marked.select(*values, *ordering, column(DELETED)), tuple(keys), shards)


def _side(struct: str, weight: int, values: Sequence[str]) -> Column:
    """Return one of the rows of an event, with its weight."""
    remedy = "publish whole old rows, such as by REPLICA IDENTITY FULL, or give from_debezium the key"
    missing = _refused(f"an event without {struct}", f.col(OP), remedy)
    row = f.struct(*(_field(struct, name).alias(name) for name in values), f.lit(weight).cast("bigint").alias(DIFF))
    return f.when(column(struct).isNotNull(), row).otherwise(missing)


def _refused(cause: str, actual: Column, remedy: str) -> Column:
    """Return an expression that ends the query with an error of this project."""
    text = f.coalesce(actual.cast("string"), f.lit("NULL"))
    return f.raise_error(f.concat(f.lit(f"DeltamarkError: {cause}: "), text, f.lit(f"; {remedy}")))


def _refuse_weights(values: Sequence[str]) -> None:
    if DIFF in values:
        raise DeltamarkError("a column has the name of the weights", DIFF, "rename it before the conversion")


def _fields(frame: DataFrame, name: str) -> list[str]:
    """Return the names of the fields of a struct."""
    type_ = frame.schema[name].dataType
    if not isinstance(type_, StructType):
        actual = f"{name} is {type_.simpleString()}"
        raise DeltamarkError("not a struct", actual, "parse it first, such as by from_json")
    return type_.fieldNames()


def _field(struct: str, name: str) -> Column:
    return column(struct).getField(name)
