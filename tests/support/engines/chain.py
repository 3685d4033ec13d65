"""Runs of a staged plan in this process, one stage after the other, as Spark runs them on many machines."""

from __future__ import annotations

import random
from collections import defaultdict
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from support.random_plans.streams import inputs_of

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.spark.dealing import dealt_messages
from deltamark.dataflow.spark.messages import NET, StageSpec
from deltamark.dataflow.spark.planning.stage_planner import plan_stages
from deltamark.dataflow.spark.planning.staged_plan import ANSWER
from deltamark.dataflow.spark.shard import Shard
from deltamark.dataflow.spark.stage_zero import StageZero
from deltamark.dataflow.spark.state_log import LogIndex, StateLog
from deltamark.dataflow.spark.wire import unpack
from deltamark.datagen.feed import Feed
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.check.change_stream import ChangeCsv, Digest
from deltamark.harness.engines.inputs import batches
from deltamark.harness.engines.plans import plan_of


class State:
    """A group's map in Spark's state store."""

    def __init__(self):
        self.held = {}

    def getValue(self, key):
        return self.held.get(key)

    def updateValue(self, key, value):
        self.held[key] = value

    def removeKey(self, key):
        del self.held[key]


class Chain:
    """Runs a plan on some shards; `forget` decides which shards lose what they have in memory before a batch."""

    def __init__(self, collection, shards, forget=lambda: False, plan=None):
        self.collection, self.shards, self.forget, self.batch = collection, shards, forget, 0
        self.plan = plan or plan_stages(collection, shards)
        labels = tuple(range(shards))
        self.stages = [StageSpec(self.plan, number, labels, {}) for number in range(1, len(self.plan.stages))]
        self.zeros = [
            StageZero(outputs, shards) for each in self.stages if (outputs := self.plan.entering(each.number))
        ]
        self.logs = defaultdict(lambda: StateLog(State()))
        self.live = {}
        self.schema = None if isinstance(collection, dict) else collection.schema

    @property
    def inputs(self):
        found = defaultdict(dict)
        for zero in self.zeros:
            for name, columns in zero.columns.items():
                found[name].update(dict.fromkeys(columns))
        return {name: tuple(columns) for name, columns in found.items()}

    def feed(self, *pieces):
        """Feed the pieces of a batch."""
        messages = defaultdict(list)
        for zero in self.zeros:
            for piece in pieces:
                for shard, edge, content in zero.process(piece):
                    messages[shard, edge].append(content)
        return self.run(messages)

    def run(self, messages):
        """Run all stages over the messages of a batch."""
        for stage in self.stages:
            for number in range(self.shards):
                shard = self.shard(stage, number)
                names = [*shard.edges, *(NET + name for name in shard.edges)]
                arrived = {name: messages.pop((number, name)) for name in names if (number, name) in messages}
                changes, net = shard.feed(arrived)
                log = self.logs[stage.number, number]
                log.append(log.index({}), self.batch, net, shard.edges)
                for to, edge, content in shard.messages(changes):
                    messages[to, edge].append(content)
        answers = {name: self.answer(name, messages) for name in self.plan.answers}
        assert not messages
        self.batch += 1
        return answers.get(ANSWER, answers)

    def answer(self, name, messages):
        """Take the changes of an answer from the messages to the sink."""
        schema = self.plan.answers[name]
        found = [unpack(schema.fields, messages.pop(each)) for each in [*messages] if each[1] == name]
        for each in found:
            texts = {field.name for field in schema.fields if field.type.kind == "text"}
            each.columns = {
                column: values.to_numpy(zero_copy_only=False) if column in texts else values
                for column, values in each.columns.items()
            }
        return merged(schema, found)

    def rescaled(self, shards):
        """Return a chain of another number of shards that continues this one, and close this one."""
        other = Chain(self.collection, shards, self.forget, self.plan)
        if self.batch:
            messages, other.batch = defaultdict(list), self.batch - 1
            for (number, shard), log in self.logs.items():
                for to, edge, content in dealt_messages(other.stages[number - 1], log, shard, {}):
                    messages[to, edge].append(content)
            other.run(messages)
        self.close()
        other.forget_all()
        return other

    def forget_all(self):
        """Let all shards lose what they have in memory."""
        for each in self.live.values():
            each.close()
        self.live.clear()

    def shard(self, stage, number):
        what = stage.number, number
        if what in self.live and not self.forget():
            return self.live[what]
        if what in self.live:
            self.live.pop(what).close()
        made = self.live[what] = Shard(stage, number)
        log = self.logs[what]
        if (index := log.index({})) != LogIndex():
            made.restore(log.net_changes_after(index, -1))
        return made

    def close(self):
        for each in (*self.live.values(), *self.zeros):
            each.close()


def digest_in_stages(cell, dataset, numbers, forget):
    """Run a cell in stages on 2 shards, and after each quarter on the next number of shards; return the digest."""
    work = workload(dataset, cell.workload)
    chain = Chain(plan_of(cell, work), 2, forget)
    pieces, lines, digest = Feed(work, chain.inputs, logical=cell.logical), ChangeCsv(chain.schema), Digest()
    while not pieces.done:
        lines.digest(chain.feed(batches(pieces.take(work.rounds // (4 * cell.logical) + 1))), digest)
        chain = chain.rescaled(next(numbers))
    chain.close()
    return str(digest)


class Pieces:
    """A chain that splits each batch into two pieces, and whose shards lose their memory at random.

    everywhere: the inputs of which every shard has a copy. rescales: the share of batches before which the number of
    shards changes.
    """

    def __init__(self, collection, shards, everywhere=(), seed=0, rescales=0.0):
        self.order, self.rescales = random.Random(seed or shards), rescales
        self.schemas = inputs_of(collection)
        with patch(
            "deltamark.dataflow.spark.planning.stage_planner._StagePlanner._is_small",
            lambda _, at: shards > 1 and at.name in everywhere,
        ):
            self.chain = Chain(collection, shards, lambda: self.order.random() < 0.3)

    def close(self):
        self.chain.close()

    def rescale(self, shards):
        """Continue with another number of shards."""
        self.chain = self.chain.rescaled(shards)

    def feed(self, whole):
        if self.order.random() < self.rescales:
            self.rescale(self.order.choice((1, 2, 3, 5)))
        dealt = {name: np.array([self.order.random() < 0.5 for _ in each.time], bool) for name, each in whole.items()}
        first = {name: self.part(name, each, dealt[name]) for name, each in whole.items()}
        second = {name: self.part(name, each, ~dealt[name]) for name, each in whole.items()}
        return self.chain.feed(*({n: each for n, each in piece.items() if len(each.time)} for piece in (first, second)))

    def part(self, name, batch, rows):
        columns = {}
        for column, values in batch.columns.items():
            type_ = self.schemas[name][column]
            is_text = type_.kind == "text"
            columns[column] = values.filter(pa.array(rows)) if is_text else values[rows].astype(f"i{type_.width}")
        return Batch(batch.time[rows], batch.diff[rows], columns)


def merged(schema, parts):
    none = np.empty(0, dtype=np.int64)
    parts = [Batch(none, none, dict.fromkeys(schema.names, none)), *parts]
    time = np.concatenate([each.time for each in parts])
    order = np.argsort(time, kind="stable")
    columns = {name: np.concatenate([each.columns[name] for each in parts])[order] for name in schema.names}
    return Batch(time[order], np.concatenate([each.diff for each in parts])[order], columns)
