"""Upserts as changes with weights: a stateful operator ahead of the stages, which keeps the newest row of each key.

Spark sends each row to the shard that owns its key. The shard applies the rows of a batch to its table, and emits the
old and the new rows (`latest_rows.py`). Its log in the state store is that of a stage, so a repeated batch meets the
state before it.

Spark starts processes only to plan the query. They import this module, which loads the rest only where rows arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from pyspark.sql.types import LongType, StructField, StructType

from deltamark.dataflow.spark.columns import column
from deltamark.dataflow.spark.messages import BATCH_PROPERTY, RUN_PROPERTY, Spec, task_property
from deltamark.dataflow.spark.stage import CONTENT, KEY, STATE_VARIABLE
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    import pandas as pd

DIFF = "diff"
"""The column of weights."""

OWNER, ORDER, DELETED = "label of the shard", "order of the row", "whether the key is deleted"
"""The columns of upserts besides their values."""

PACKED_SCHEMA = "label bigint, content binary"
"""The columns of the Spark rows that carry upserts to a shard and changes from it, as Arrow bytes.

A frame of pandas with the rows themselves would turn integers that may be NULL into floats.
"""


@dataclass(frozen=True)
class UpsertSpec(Spec):
    """The rows that an operator keeps: their columns, in which ORDER may be one, and the columns of the key.

    operator: the unique name of the operator, by which its shards are cached. identity: the properties of the operator
    that its stored state depends on.
    """

    rows: pa.Schema
    key: tuple[str, ...]
    operator: str
    identity: Mapping[str, str]


def changes_by_key(upserts: DataFrame, key: tuple[str, ...], shards: int | None) -> DataFrame:
    """Return the changes of the newest rows. upserts: rows with DELETED, perhaps with ORDER."""
    if not upserts.isStreaming:
        raise DeltamarkError("not a streaming frame", ", ".join(upserts.columns), "read it by spark.readStream")
    # they load the engine
    from deltamark.dataflow.spark.chain import shard_count, shard_labels  # noqa: PLC0415
    from deltamark.dataflow.spark.latest_rows import Packing, Unpacking  # noqa: PLC0415
    from deltamark.dataflow.spark.net_changes import WEIGHT  # noqa: PLC0415
    from deltamark.dataflow.spark.state_log import format_identity  # noqa: PLC0415

    spark = upserts.sparkSession
    labels = shard_labels(spark, shard_count(spark, shards))
    kept = StructType([field for field in upserts.schema if field.name != DELETED])
    identity = {
        "columns": kept.simpleString(), "key": ", ".join(key), "shards of the feed": str(len(labels)),
        **format_identity(),
    }  # fmt: skip
    spec = UpsertSpec(to_arrow_schema(kept, timezone="UTC"), key, uuid4().hex, identity)
    owner = f.pmod(f.xxhash64(*map(column, key)), f.lit(len(labels))).cast("int")
    label = f.element_at(f.array(*(f.lit(each).cast("bigint") for each in labels)), owner + 1)
    # numbers for names: mapInArrow does not take all names
    numbered = [column(name).alias(str(number)) for number, name in enumerate([*kept.names, DELETED])]
    rows = upserts.select(label.alias(OWNER), *numbered).mapInArrow(Packing(), PACKED_SCHEMA).groupBy("label")
    latest = rows.transformWithStateInPandas(UpsertProcessor(spec), PACKED_SCHEMA, "append", "none")
    values = [(str(number), field) for number, field in enumerate(kept) if field.name != ORDER]
    types = [*(StructField(number, field.dataType) for number, field in values), StructField(WEIGHT, LongType())]
    changes = latest.mapInArrow(Unpacking(to_arrow_schema(StructType(types), timezone="UTC")), StructType(types))
    return changes.select(*(column(number).alias(field.name) for number, field in values), f.col(WEIGHT).alias(DIFF))


class UpsertProcessor(StatefulProcessor):
    """Applies upserts to the shards of an operator."""

    def __init__(self, spec: UpsertSpec) -> None:
        self._spec_text = spec.to_text()

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._contents = handle.getMapState(STATE_VARIABLE, KEY, CONTENT)

    def handleInputRows(  # noqa: N802 (Spark's name)
        self, key: tuple[int], rows: Iterator[pd.DataFrame], timerValues: TimerValues  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:  # fmt: skip
        """Apply a batch to the shard whose label is the key."""
        # planning needs none of them
        import pandas as pd  # noqa: PLC0415

        from deltamark.dataflow.spark.latest_rows import RowShardKey, process_batch  # noqa: PLC0415
        from deltamark.dataflow.spark.state_log import StateLog  # noqa: PLC0415

        spec, label = UpsertSpec.from_text(self._spec_text), int(key[0])
        shard = RowShardKey(task_property(RUN_PROPERTY), spec.operator, label)
        contents = [content for frame in rows for content in frame["content"]]
        changes = process_batch(spec, shard, StateLog(self._contents), int(task_property(BATCH_PROPERTY)), contents)
        if changes:
            yield pd.DataFrame({"label": [label], "content": [changes]})

    def close(self) -> None:
        """Do nothing: shards stay alive for the next batch."""
