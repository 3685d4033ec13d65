"""A shard of a stage: the state of an ordinary dataflow, fed with what its edges bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.plan.nodes import INDEX_READERS, walk
from deltamark.dataflow.runtime.worker import Worker
from deltamark.dataflow.spark.ingest.stage_zero import Sent, sent
from deltamark.dataflow.spark.ingest.wire import unpack
from deltamark.dataflow.spark.net_changes import Net, net, replayed
from deltamark.dataflow.spark.planning.edges import ANSWER, Cut, Edge


class Shard:
    def __init__(self, plan: Cut, stage: int, shard: int, shards: int) -> None:
        self._shard, self._shards = shard, shards
        self._outputs = [each for each in plan.stages[stage] if shard == 0 or not each.first]
        self._program = Worker(compile_plans({each.edge.name: each.node for each in self._outputs}))
        if any(isinstance(node, INDEX_READERS) for each in self._outputs for node in walk(each.node)):
            self._program.take_whole_feeds()  # other shards have other slices, but all must see changes in one order
        self._edges = {name: edge for name, edge in plan.arriving(stage).items() if name in self._program.inputs}
        self._time = -1

    @property
    def edges(self) -> Mapping[str, Edge]:
        return self._edges

    def feed(self, mails: Mapping[str, Sequence[bytes]]) -> tuple[dict[str, Batch], Net]:
        """Apply a batch; return what changes, and what is to be remembered of the batch."""
        arrived = {name: unpack(edge.fields, mails.get(name, ())) for name, edge in self._edges.items()}
        batches = {name: batch for name, batch in arrived.items() if batch is not None}
        changes = self._program.feed(batches)
        self._time = max([self._time, *(int(each.time[-1]) for each in batches.values())])
        return {name: each for name, each in changes.items() if len(each.time)}, net(self._edges, batches)

    def remember(self, what: Net) -> None:
        """Make the state of batches again of what was to be remembered of them.

        Each batch had at least one time of its own, so this one is no later than the last that it had.
        """
        self._time += 1
        self._program.push(replayed(self._edges, what, self._time))

    def sent(self, changes: Mapping[str, Batch]) -> Iterator[Sent]:
        """Address all changes but those of the answer."""
        for output in self._outputs:
            if output.edge.name in changes and output.edge.name != ANSWER:
                found = as_arrow(output.edge, changes[output.edge.name])
                here = output.edge.to == "here"
                for shard, name, content in sent(output, found, self._shards):
                    yield self._shard if here else shard, name, content

    def close(self) -> None:
        self._program.close()


def as_arrow(edge: Edge, changes: Batch) -> Batch:
    """Make of texts what travels."""
    texts = {name: pa.array(changes.columns[name], pa.string()) for name in edge.texts}
    return Batch(changes.time, changes.diff, {**changes.columns, **texts})
