"""A shard of a stage: the operators of the stage over the rows that the shard owns, as ordinary plans on one worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.extend import Extension
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.runtime.exclusive import Exclusive
from deltamark.dataflow.runtime.one_worker import OneWorker
from deltamark.dataflow.spark.ingest.wire import messages_for, unpack
from deltamark.dataflow.spark.messages import Message, StageSpec
from deltamark.dataflow.spark.net_changes import NetChanges, net_changes, replay
from deltamark.dataflow.spark.planning.staged_plan import ANSWER, Edge


class Shard:
    """Maintains the outputs of a stage from the changes that arrive on the edges to the shard."""

    def __init__(self, stage: StageSpec, number: int) -> None:
        self._number, self._shards = number, stage.shards
        outputs = stage.plan.stages[stage.number]
        self._outputs = [each for each in outputs if number == 0 or not each.first_shard_only]
        plans = OneWorker({each.edge.name: Collection(each.node) for each in self._outputs})
        if any(isinstance(node, Extension) for each in self._outputs for node in walk(each.node)):
            plans.worker.take_whole_feeds()  # the copies of an index must change in one order, whatever the slices
        self._plans = Exclusive("shard", plans)
        arriving = stage.plan.arriving(stage.number)
        self.edges: Mapping[str, Edge] = {name: arriving[name] for name in arriving if name in plans.inputs}
        self._time = -1

    def feed(self, contents: Mapping[str, Sequence[bytes]]) -> tuple[dict[str, Batch], NetChanges]:
        """Apply a batch, given as the messages of each edge; return the changes of each output, and the net changes."""
        unpacked = {name: unpack(edge.fields, contents.get(name, ())) for name, edge in self.edges.items()}
        batches = {name: batch for name, batch in unpacked.items() if batch is not None}
        changes = self._plans.use(lambda plans: plans.feed(batches))
        self._time = max([self._time, *(int(batch.time[-1]) for batch in batches.values())])
        return {name: each for name, each in changes.items() if len(each.time)}, net_changes(self.edges, batches)

    def restore(self, net: NetChanges) -> None:
        """Bring the state up to date by the net changes of one or more batches.

        They are applied at one time, which is no later than the last of these batches: each had a time of its own.
        """
        self._time += 1
        self._plans.use(lambda plans: plans.push(replay(self.edges, net, self._time)))

    def messages(self, changes: Mapping[str, Batch]) -> Iterator[Message]:
        """Address the changes of the outputs to the shards of later stages, except for those of the answer."""
        for output in self._outputs:
            edge = output.edge
            if edge.name in changes and edge.name != ANSWER:
                packed = _with_arrow_texts(edge, changes[edge.name])
                yield from messages_for(edge, packed, shards=self._shards, sender=self._number)

    def close(self) -> None:
        self._plans.close()


def _with_arrow_texts(edge: Edge, changes: Batch) -> Batch:
    texts = {name: pa.array(changes.columns[name], pa.string()) for name in edge.texts}
    return Batch(changes.time, changes.diff, {**changes.columns, **texts})
