"""The Spark engine: compiled plans as one Structured Streaming query, with the same changes as the embedded engine.

`query.py` runs a query over an `InputSource`, in a directory of its own, and checks that the directory belongs to it.
`maintain.py` makes a frame of changes from the frames of a caller. `rescale.py` lets a checkpoint continue with another
number of shards. `feeds.py` converts change feeds into frames of rows with weights, for which `upserts.py` and
`latest_rows.py` find old rows; `answer_table.py` merges the changes of an answer into a table.
`planning/stage_planner.py` divides the plan into stages, with an exchange between each two
(`planning/staged_plan.py` has the result). Each physical batch is one micro-batch of Spark, in these steps:

1. Read. Spark asks the data source of each stage that inputs enter for the next batch (`data_source.py`). A task per
   shard reads its pieces of the batch from the caller's `InputSource` (`messages.py`).
2. Stage 0. The task filters and projects the rows (`stage_zero.py`), hashes them to the shards that own them, and packs
   the rows for each shard and edge as a message of Arrow bytes (`wire.py`).
3. Shuffle. Spark groups the messages by the labels of their shards (`chain.py`, `shard_labels`).
4. Stages 1, 2, ... Spark calls the processor of the stage once per shard (`stage.py`). It takes the shard from the
   cache of its process, or restores it from its log (`shard.py`). The shard unpacks the messages and feeds ordinary
   plans on one worker.
5. Log. The net changes of the batch (`net_changes.py`) are appended to the shard's log in Spark's state store
   (`state_log.py`), which Spark commits with the batch. There is no other state in Spark.
6. Send. The changes of the shard are packed as in step 2, and shuffled to the next stage together with messages that
   only pass through this stage.
7. Sink. The last stage hands the changes of the answer to Spark, which stores them as Parquet exactly once (`sink.py`).

`messages.py` has the values that travel between processes. Spark starts many processes only to plan the query. They
import `stage.py` and `data_source.py`, which load the engine only when rows arrive.
"""
