"""The stages of a cut plan run one after the other in this process, as Spark runs them on many machines."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from dataflow.spark.cut import ANSWER, cut
from dataflow.spark.log import from_bytes, to_bytes, together
from dataflow.spark.reading import Reading
from dataflow.spark.shard import Shard
from dataflow.worker import Batch


class Chain:
    """Runs a plan on some shards; `forget` decides which shards lose what they have in memory before a batch."""

    def __init__(self, collection, shards, forget=lambda: False, compact=lambda: False):
        self.plan, self.shards, self.forget, self.compact = cut(collection, shards), shards, forget, compact
        self.stages = range(1, len(self.plan.stages))
        self.readings = {stage: Reading(self.plan, stage, shards) for stage in self.stages}
        self.logs = defaultdict(list)
        self.live = {}
        self.schema = collection.schema

    @property
    def inputs(self):
        found = defaultdict(dict)
        for reading in self.readings.values():
            for name, columns in reading.wanted.items():
                found[name].update(dict.fromkeys(columns))
        return {name: tuple(columns) for name, columns in found.items()}

    def feed(self, *pieces):
        """Feed a batch that comes in pieces."""
        mails = defaultdict(list)
        for reading in self.readings.values():
            for piece in pieces:
                for shard, edge, content in reading.sent(piece):
                    mails[shard, edge].append(content)
        found = []
        for stage in self.stages:
            for number in range(self.shards):
                shard = self.shard(stage, number)
                arrived = {name: mails.pop((number, name), []) for name in shard.edges}
                changes, net = shard.feed(arrived)
                self.logs[stage, number].append(to_bytes(net))
                for to, edge, content in shard.sent(changes):
                    mails[to, edge].append(content)
                if ANSWER in changes:
                    found.append(changes[ANSWER])
        assert not mails
        return merged(self.schema, found)

    def shard(self, stage, number):
        what = stage, number
        if what in self.live and not self.forget():
            return self.live[what]
        if what in self.live:
            self.live.pop(what).close()
        made = self.live[what] = Shard(self.plan, stage, number, self.shards)
        if self.logs[what] and self.compact():
            self.logs[what] = [to_bytes(together(made.edges, map(from_bytes, self.logs[what])))]
        for content in self.logs[what]:
            made.remember(from_bytes(content))
        return made

    def close(self):
        for each in (*self.live.values(), *self.readings.values()):
            each.close()


def merged(schema, parts):
    none = np.empty(0, dtype=np.int64)
    parts = [Batch(none, none, dict.fromkeys(schema.names, none)), *parts]
    time = np.concatenate([each.time for each in parts])
    order = np.argsort(time, kind="stable")
    columns = {name: np.concatenate([each.columns[name] for each in parts])[order] for name in schema.names}
    return Batch(time[order], np.concatenate([each.diff for each in parts])[order], columns)
