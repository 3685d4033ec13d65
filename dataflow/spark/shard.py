"""Shards of a stage: each runs the operators of the stage over the rows that it owns, as ordinary plans on one worker.

A shard applies one batch after another: its log records the net changes, and its messages are sent on. Shards stay
alive in their process (`LiveStates`). A shard that has missed batches is brought up to date from its log, and so is a
new one.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd
import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.extend import Extension
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.runtime.exclusive import Exclusive
from deltamark.dataflow.runtime.live_plans import LivePlans
from deltamark.dataflow.spark.messages import NET, Message, ShardKey, StageSpec
from deltamark.dataflow.spark.net_changes import NetChanges, consolidated, from_bytes, net_changes, replay
from deltamark.dataflow.spark.planning.staged_plan import Edge
from deltamark.dataflow.spark.sink import sent_frame
from deltamark.dataflow.spark.state_log import LiveStates, LogIndex, StateLog
from deltamark.dataflow.spark.wire import messages_for, unpack
from deltamark.errors import DeltamarkError


class Shard:
    """Maintains the outputs of a stage from the changes that arrive on the edges to the shard."""

    def __init__(self, stage: StageSpec, number: int) -> None:
        self._number, self._shards = number, stage.shards
        outputs = stage.plan.stages[stage.number]
        self._outputs = [each for each in outputs if number == 0 or not each.first_shard_only]
        plans = LivePlans({each.edge.name: Collection(each.node) for each in self._outputs})
        if any(isinstance(node, Extension) for each in self._outputs for node in walk(each.node)):
            plans.worker.take_whole_feeds()  # the copies of an index must change in one order, whatever the slices
        self._plans = Exclusive("shard", plans)
        arriving = stage.plan.arriving(stage.number)
        self.edges: Mapping[str, Edge] = {name: arriving[name] for name in arriving if name in plans.inputs}
        self._time = -1

    def feed(self, contents: Mapping[str, Sequence[bytes]]) -> tuple[dict[str, Batch], NetChanges]:
        """Apply a batch, given as the messages of each edge; return the changes of each output, and the net changes.

        Net changes that were stored by other shards are applied at time 0, as those that follow from them.
        """
        unpacked = {name: unpack(edge.fields, contents.get(name, ())) for name, edge in self.edges.items()}
        received = {name: batch for name, batch in unpacked.items() if batch is not None}
        stored = {
            name: consolidated(edge, pa.concat_tables(map(from_bytes, contents[NET + name])))
            for name, edge in self.edges.items()
            if NET + name in contents
        }
        batches = {**received, **replay(self.edges, stored, 0)}
        changes = self._plans.use(lambda plans: plans.feed(batches))
        self._time = max([self._time, *(int(batch.time[-1]) for batch in batches.values())])
        net = {**net_changes(self.edges, received), **stored}
        return {name: each for name, each in changes.items() if len(each.time)}, net

    def restore(self, net: NetChanges) -> None:
        """Bring the state up to date by the net changes of one or more batches.

        They are applied at one time, which is no later than the last of these batches: each had a time of its own.
        """
        self._time += 1
        self._plans.use(lambda plans: plans.push(replay(self.edges, net, self._time)))

    def messages(self, changes: Mapping[str, Batch]) -> Iterator[Message]:
        """Address the changes of the outputs to the shards of later stages, and those of answers to their own shard."""
        for output in self._outputs:
            edge = output.edge
            if edge.name in changes:
                packed = _with_arrow_texts(edge, changes[edge.name])
                yield from messages_for(edge, packed, shards=self._shards, sender=self._number)

    def close(self) -> None:
        self._plans.close()


def _with_arrow_texts(edge: Edge, changes: Batch) -> Batch:
    texts = {name: pa.array(changes.columns[name], pa.string()) for name in edge.texts}
    return Batch(changes.time, changes.diff, {**changes.columns, **texts})


_shards = LiveStates[ShardKey, Shard]()


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
        others = [edge for edge in contents if edge.removeprefix(NET) not in ending]
        passing = [Message(key.shard, edge, each) for edge in others for each in contents[edge]]
        yield from _rows(stage, batch, [*passing, *shard.messages(changes)])
    else:
        yield from _answers(stage, contents, changes)
    if stage.is_final:
        shard.close()
        return
    _shards.keep(key, batch, shard)
    if is_new:
        gc.freeze()  # Spark collects garbage after every task, and would look at all modules each time


def _answers(
    stage: StageSpec, contents: Mapping[str, Sequence[bytes]], changes: Mapping[str, Batch]
) -> Iterator[pd.DataFrame]:
    """Yield the changes of the answers of the last stage, and of those that have passed through it."""
    for name, schema in stage.plan.answers.items():
        answer = changes.get(name) or unpack(schema.fields, contents.get(name, ()))
        if answer is not None:
            yield sent_frame(stage.plan.answers, name, answer)


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
    cached = _shards.take(key, index)
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
