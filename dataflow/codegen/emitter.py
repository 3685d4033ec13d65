"""Emission: the last pass appends the operators of shared and partitioned plans to a program, inputs first.

Each operator comes after the exchanges and arrangements that it reads. An arrangement inserts the changes of a slice
before its readers run, and settles after all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deltamark.dataflow.builder.keys import key_ids, key_of
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.stream import KeyPartition, Stream
from deltamark.dataflow.codegen.compiled import Answer, Compiled, NodePart, NodeParts, SharedArrangement
from deltamark.dataflow.kernels.arrangements.settle import SETTLE
from deltamark.dataflow.operators.arrangement import ArrangedKey, arrange
from deltamark.dataflow.operators.by_key import Paired
from deltamark.dataflow.operators.collect import collect
from deltamark.dataflow.operators.consolidate import consolidated as consolidate
from deltamark.dataflow.operators.distribution import (
    ANYWHERE,
    FIRST,
    SLICED,
    WHOLE,
    Distribution,
    Exchange,
    OperatorDistribution,
)
from deltamark.dataflow.operators.exchange import exchange
from deltamark.dataflow.operators.exchange import owned_of_selected as deal_chosen
from deltamark.dataflow.operators.exchange import owned_rows as deal
from deltamark.dataflow.operators.extend import Extension, IndexRead
from deltamark.dataflow.operators.index import Index, Indexed, index, settle
from deltamark.dataflow.operators.input import Input, InputReader, row_count
from deltamark.dataflow.operators.iterate import Iterate, LoopBody, LoopJoin, inside
from deltamark.dataflow.operators.join import repeats_rows
from deltamark.dataflow.operators.linear import is_consolidated
from deltamark.dataflow.operators.node import Node, ReadArrangement
from deltamark.dataflow.passes.partition import Partitioned
from deltamark.dataflow.passes.share import ArrangementKey, Shared
from deltamark.dataflow.plan.terms import Term, filter_bitmap
from deltamark.dataflow.types import Type
from deltamark.errors import DeltamarkError


def emit(
    compiled: Compiled, shared: Shared[SharedArrangement], partitioned: Partitioned
) -> Sequence[SharedArrangement]:
    """Append the operators of plans to a program, and the collection of their answers.

    Return the arrangements that they read and that were built before.
    """
    emitter = _Emitter(compiled, shared, partitioned, NodeParts(shared.pruned), tuple(compiled.arrangements))
    for node in shared.pruned.nodes:
        if node not in shared.pruned.looping:
            emitter.emit(node)
    for name, plan in shared.pruned.plans.items():
        emitter.answer(name, plan)
    compiled.choices += shared.choices
    return list(dict.fromkeys(emitter.existing))


@dataclass
class _Emitter:
    """The streams, exchanges and indexes that have been emitted so far.

    Indexes are not shared with plans that were compiled before, since new rules must see the history row by row.
    """

    compiled: Compiled
    shared: Shared[SharedArrangement]
    partitioned: Partitioned
    _parts: NodeParts
    _before: Sequence[SharedArrangement]
    """The arrangements of plans that were compiled before."""
    existing: list[SharedArrangement] = field(default_factory=list)
    """Those of them that the plans read."""
    _streams: dict[Node, Stream] = field(default_factory=dict)
    _exchanged: dict[tuple[Node, Exchange], tuple[Stream, NodePart]] = field(default_factory=dict)
    _indexes: dict[tuple[Node, Exchange | None, Indexed], tuple[Index, NodePart]] = field(default_factory=dict)

    def emit(self, node: Node) -> None:
        """Append the operator of a node."""
        part = self._parts.add(node)
        distributed = self.distribution(node)
        with self.program.building(part):
            streams = [self._exchange(node.inputs[side], distributed.exchanges[side]) for side in self._sides(node)]
            stream = node.emit(self, streams)
            self._streams[node] = self._in_ranges(stream, distributed.distribution)
        part.rows_cell = stream.size
        self.compiled.node_parts.append(part)

    def answer(self, name: str, plan: Node) -> None:
        """Append the collection of an answer."""
        part = NodePart(node=plan, role=Answer(name), columns=plan.schema.names)
        with self.program.building(part):
            stream = self._exchange(plan, self.partitioned.answers[name])
            if not is_consolidated(plan):
                stream = consolidate(stream, plan.schema.names)
            self.compiled.roots[name] = collect(stream, plan.schema)
        part.rows_cell = stream.size
        self.compiled.node_parts.append(part)

    @property
    def program(self) -> Program:
        return self.compiled.program

    @property
    def _building(self) -> NodePart:
        """The part under construction."""
        part = self.program.part
        assert isinstance(part, NodePart)
        return part

    def columns(self, node: Node) -> tuple[str, ...]:
        return self.shared.pruned.columns[node]

    def distribution(self, node: Node) -> OperatorDistribution:
        return self.partitioned.operators[node]

    def _sides(self, node: Node) -> list[int]:
        """Return the inputs whose streams a node reads: not those from existing arrangements or below a filter."""
        if isinstance(node, Iterate):
            return [0]
        return [side for side in range(len(node.inputs)) if not self._has_other_source(node, side)]

    def _has_other_source(self, node: Node, side: int) -> bool:
        """Return whether a node reads an existing arrangement of an input, or one of the rows below its filter."""
        if not isinstance(node, Paired) or (node, side) not in self.shared.inputs:
            return False
        if (node, side) in self.shared.residual:
            return True
        return self._found(node, side, self._key(node, side)) in self._before

    def remark(self, text: str) -> None:
        self._building.remark = text

    def input(self, node: Input) -> Stream:
        reader = self.compiled.inputs.setdefault(node.name, InputReader(self.program, node))
        if reader.node is not node:
            raise DeltamarkError("two inputs of one name", node.name, "declare each input once")
        return reader.stream(self.columns(node))

    def first_worker_selects(self, selected: Stream, columns: Mapping[str, Type], node: Node) -> Stream:
        second = self.distribution(node).second
        assert second is not None
        self.remark("each worker selects among its rows, and one worker among the selected rows")
        return exchange(selected, ANYWHERE, second, columns)

    def _exchange(self, node: Node, by: Exchange | None) -> Stream:
        """Return a node's stream after an exchange, which is emitted once for all readers."""
        if by is not None and (node, by) not in self._exchanged:
            part = NodePart(node=node, role=by, columns=self.columns(node), reads=[(self._parts[node],)])
            with self.program.building(part):
                moved = self._moved(node, by)
            part.rows_cell = moved.size
            self.compiled.node_parts.append(part)
            self._exchanged[node, by] = moved, part
        stream, read = (self._streams[node], self._parts[node]) if by is None else self._exchanged[node, by]
        self.program.part.uses.add(stream.part)
        self._building.read(read)
        return stream

    def _moved(self, node: Node, by: Exchange) -> Stream:
        columns = {name: node.schema[name] for name in self.columns(node)}
        self.program.part.uses.add(self._streams[node].part)
        if by.to == "slice":
            assert isinstance(node, Input)
            return self.compiled.inputs[node.name].slice()
        if by.dealt and self.distribution(node).distribution == SLICED:
            (input_,) = node.inputs
            assert isinstance(input_, Input)
            whole, block = self._streams[input_], self.compiled.inputs[input_.name].block
            self.program.part.uses.add(whole.part)
            moved = deal_chosen(self._streams[node], whole, block, by, columns)
        elif by.dealt:
            moved = deal(self._streams[node], by, columns, is_divided=isinstance(node, Input))
        else:
            moved = exchange(self._streams[node], self.distribution(node).distribution, by, columns)
        return self._in_ranges(moved, by.applied())

    def _in_ranges(self, stream: Stream, distribution: Distribution) -> Stream:
        """Number the keys of a stream densely if its worker owns ranges of them."""
        if distribution.low is None:
            return stream
        partition = KeyPartition(distribution.by[0], distribution.low, self.program.workers, self.program.worker)
        return replace(stream, partition=partition)

    @property
    def looping(self) -> Collection[Node]:
        return self.shared.pruned.looping

    def arranged(self, node: Paired) -> Sequence[ReadArrangement]:
        self._building.reads.clear()  # its arrangements read the streams
        return [self._arrangement(node, side) for side in (0, 1)]

    def _arrangement(self, node: Paired, side: int) -> ReadArrangement:
        of, key = self.shared.inputs[node, side], self._key(node, side)
        found = self._found(node, side, key)
        if found is None:
            found = self._arrange(key)
            self.compiled.arrangements.append(found)
        elif found in self._before:
            self.existing.append(found)
        self._building.read(*self._parts.applied(node.inputs[side], of.node), found.part)
        return ReadArrangement(found.arrangement, of.condition, of.terms)

    def _key(self, node: Paired, side: int) -> ArrangementKey:
        of, place = self.shared.inputs[node, side], self.distribution(node).exchanges[side]
        names = of.names(node.keys[side])
        if place is None and self.program.workers > 1:
            return ArrangementKey(of.node, self.distribution(of.node).distribution, names, node.key_types)
        return ArrangementKey(of.node, place, names, node.key_types)

    def _found(self, node: Paired, side: int, key: ArrangementKey) -> SharedArrangement | None:
        """Return the arrangement that one side of a join reads, if there is one yet."""
        if (node, side) in self.shared.existing:
            return self.shared.existing[node, side]
        of = self.shared.inputs[node, side]
        return self.compiled.arrangement(key, self.shared.stored[of.node, key.names], of.condition)

    def _arrange(self, key: ArrangementKey) -> SharedArrangement:
        program = self.program
        part = NodePart(node=key.node, role=key.names, columns=self.columns(key.node))
        with program.building(part):
            stream = self._exchange(key.node, key.place if isinstance(key.place, Exchange) else None)
            terms = self._stored_terms(key)
            names = sorted({*key.names, *(name for term in terms for name in term.columns)})
            if repeats_rows(key.node, names, self.columns):
                stream = replace(consolidate(stream, names), partition=stream.partition)
                part.remark = "equal rows are added up first"
            part.rows_cell = stream.size
            number = key_of(stream, key.names, key.types, self.compiled.interners.get(key.types))
            if number.interner is not None:
                self.compiled.interners[key.types] = number.interner
            rows = row_count(key.node)
            keys = key_ids(program, number, rows, stream.size)
            arrangement = arrange(stream, ArrangedKey(key.names, key.types, number), keys, terms, rows.expected)
            program.add_late(SETTLE, arrangement=arrangement.block)
            program.add_state(arrangement)
        self.compiled.node_parts.append(part)
        return SharedArrangement(key, arrangement, part)

    def _stored_terms(self, key: ArrangementKey) -> list[Term]:
        """Return the terms that an arrangement stores, the bitmap of its filters included."""
        at = key.node, key.names
        conditions = self.shared.filters.get(at)
        return [*self.shared.stored[at], *([filter_bitmap(conditions)] if conditions else [])]

    def indexes(self, node: Extension) -> list[Index]:
        exchanges = self.distribution(node).exchanges[1:]
        del self._building.reads[1:]  # its indexes read the other streams
        return [self._index(read, by) for read, by in zip(node.reads, exchanges, strict=True)]

    def _index(self, read: IndexRead, by: Exchange | None) -> Index:
        """Return an index, which is emitted once for all readers."""
        node = read.rows
        of = Indexed(read.keys, read.value, self.shared.index_types[node, read.keys, read.value])
        if (node, by, of) not in self._indexes:
            part = NodePart(node=node, role=of, columns=self.columns(node))
            with self.program.building(part):
                stream = self._exchange(node, by)
                part.rows_cell = stream.size
                new = index(stream, of, node.schema[read.value], row_count(node))
                settle(self.program, new)
            self.compiled.node_parts.append(part)
            self._indexes[node, by, of] = new, part
        found, part = self._indexes[node, by, of]
        self._building.read(part)
        return found

    def loop(self, loop: Iterate) -> Stream:
        parts = {each: self._parts.add(each) for each in inside(loop)}
        self.compiled.node_parts += parts.values()
        self.program.part.uses.update(parts.values())
        joins = {}
        for each, part in parts.items():
            if isinstance(each, Paired):
                with self.program.building(part):
                    joins[each] = self._loop_join(each)
            arranged = part.reads
            part.reads = [arranged[0] if arranged and of not in parts else (self._parts[of],) for of in each.inputs]
        body = LoopBody(self, loop, joins, parts)
        stream = body.compile(self._at_first)
        self._building.reads = [(self._parts[loop.seed],), (parts[loop.body],)]
        return stream

    def _at_first(self, node: Node) -> Stream:
        """Return a node's stream at the first worker, which runs all loops."""
        place = self.distribution(node).distribution
        return self._exchange(node, None if place == FIRST else Exchange("first", dealt=place == WHOLE))

    def _loop_join(self, node: Paired) -> LoopJoin:
        """Arrange the side of a join inside a loop that comes from outside."""
        left, _ = node.inputs
        side = 0 if left in self.looping else 1
        outer = self._arrangement(node, 1 - side)
        terms = {name: outer.terms[name] for name in self.columns(node) if (name in left.schema) == (side == 1)}
        return LoopJoin(side, node.key_types, outer.arrangement, terms)
