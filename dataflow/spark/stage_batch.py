"""One batch of one shard: the shard applies it, the log records its net changes, and its messages are sent on.

A shard that is alive in this process is brought up to date from its log if it has missed batches; if no shard is alive,
one is created from the log.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pandas as pd

from deltamark.dataflow.spark import shard_cache
from deltamark.dataflow.spark.messages import Message, ShardKey, StageSpec
from deltamark.dataflow.spark.planning.staged_plan import ANSWER
from deltamark.dataflow.spark.shard import Shard
from deltamark.dataflow.spark.sink import to_spark
from deltamark.dataflow.spark.state_log import LogIndex, StateLog
from deltamark.errors import DeltamarkError


def process_batch(
    stage: StageSpec, key: ShardKey, log: StateLog, rows: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Apply a batch to a shard; yield messages to later stages or, from the last stage, the changes of the answer."""
    batch, contents = _contents_by_edge(rows)
    index = log.index(stage.identity)
    if batch <= index.batch:
        actual = f"batch {batch} after batch {index.batch}, in shard {key.shard} of stage {key.stage}"
        raise DeltamarkError("a batch arrived twice", actual, "remove the directory and start again")
    shard, is_new = _restored(stage, key, log, index)
    changes, net = shard.feed(contents)
    log.append(index, batch, net, shard.edges)
    if not stage.is_last:
        ending = stage.plan.arriving(stage.number)
        passing = [Message(key.shard, edge, each) for edge in contents if edge not in ending for each in contents[edge]]
        yield from _rows(stage, batch, [*passing, *shard.messages(changes)])
    elif ANSWER in changes:
        yield to_spark(stage.plan.schema, changes[ANSWER])
    shard_cache.put(key, batch, shard)
    if is_new:
        gc.freeze()  # Spark collects garbage after every task, and would look at all modules each time


def _contents_by_edge(rows: Iterator[pd.DataFrame]) -> tuple[int, dict[str, list[bytes]]]:
    """Group the contents of messages by edge; return the number of their batch, too."""
    contents: defaultdict[str, list[bytes]] = defaultdict(list)
    batches = set[int]()
    for frame in rows:
        for edge, batch, content in zip(frame["edge"], frame["batch"], frame["content"], strict=True):
            batches.add(int(batch))
            contents[edge].append(content)
    if len(batches) != 1:
        actual = f"batches {sorted(batches)} in one micro-batch"
        raise DeltamarkError("sources out of step", actual, "start with a new directory")
    return batches.pop(), contents


def _restored(stage: StageSpec, key: ShardKey, log: StateLog, index: LogIndex) -> tuple[Shard, bool]:
    """Return a shard in its state after the last committed batch, and whether it is a new object."""
    cached = shard_cache.take(key, index.batch)
    if cached is not None and not index.divides(cached[0]):
        cached[1].close()
        cached = None
    batch, shard = cached or (-1, Shard(stage, key.shard))
    if batch < index.batch:
        shard.restore(log.net_changes_after(index, batch))
    return shard, cached is None


def _rows(stage: StageSpec, batch: int, messages: Iterable[Message]) -> Iterator[pd.DataFrame]:
    """Yield each message as a frame of one row, with the columns of MESSAGE_SCHEMA."""
    for shard, edge, content in messages:
        yield pd.DataFrame({
            "label": [stage.labels[shard]], "edge": [edge], "batch": [batch], "content": [content]
        })  # fmt: skip
