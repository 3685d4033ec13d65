"""Emission: the last pass appends the operators of shared and partitioned plans to a program, inputs first.

Each operator comes after the exchanges and arrangements that it reads. An arrangement inserts the changes of a slice
before its readers run, and settles after all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

from deltamark.dataflow.builder.key_ids import key_ids
from deltamark.dataflow.builder.keys import key_of
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.stream import KeyPartition, Stream
from deltamark.dataflow.codegen.compiled import Compiled, SharedArrangement
from deltamark.dataflow.codegen.loop_body import Body, LoopJoin
from deltamark.dataflow.codegen.node_parts import Answer, NodePart, NodeParts
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.program import LateBlock
from deltamark.dataflow.operators import linear
from deltamark.dataflow.operators.arrangement import ArrangedKey, Arrangement, arrange
from deltamark.dataflow.operators.collect import collect
from deltamark.dataflow.operators.consolidate import consolidate
from deltamark.dataflow.operators.exchange import deal, exchange
from deltamark.dataflow.operators.groups import aggregate as aggregates
from deltamark.dataflow.operators.groups.extreme import extreme
from deltamark.dataflow.operators.groups.moving_threshold import moving_threshold
from deltamark.dataflow.operators.groups.null_row import null_row
from deltamark.dataflow.operators.groups.prefix_aggregate import prefix_aggregate
from deltamark.dataflow.operators.groups.top import top
from deltamark.dataflow.operators.join import join
from deltamark.dataflow.operators.motifs.extend import extend, is_counted
from deltamark.dataflow.operators.motifs.index import Index, Indexed, index, settle
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.plan.cardinality import repeats_rows, row_count
from deltamark.dataflow.plan.loops import inside
from deltamark.dataflow.plan.nodes import Node
from deltamark.dataflow.plan.passes.distribution import ANYWHERE, WHOLE, Distribution, Exchange, OperatorDistribution
from deltamark.dataflow.plan.passes.partitioning import Partitioned
from deltamark.dataflow.plan.passes.sharing import ArrangementKey, Shared
from deltamark.dataflow.plan.terms import Term, filter_bitmap
from deltamark.dataflow.plan.traversal import is_consolidated
from deltamark.errors import DeltamarkError


def emit(compiled: Compiled, shared: Shared[SharedArrangement], partitioned: Partitioned) -> None:
    """Append the operators of plans to a program, and the collection of their answers."""
    emitter = _Emitter(compiled, shared, partitioned, NodeParts(shared.pruned))
    for node in shared.pruned.nodes:
        if node not in shared.pruned.looping:
            emitter.emit(node)
    for name, plan in shared.pruned.plans.items():
        emitter.answer(name, plan)
    compiled.choices += shared.choices


@dataclass
class _Emitter:
    """The streams, exchanges and indexes that have been emitted so far.

    Indexes are not shared with plans that were compiled before, since new rules must see the history row by row.
    """

    compiled: Compiled
    shared: Shared[SharedArrangement]
    partitioned: Partitioned
    _parts: NodeParts
    _streams: dict[Node, Stream] = field(default_factory=dict)
    _exchanged: dict[tuple[Node, Exchange], tuple[Stream, NodePart]] = field(default_factory=dict)
    _indexes: dict[tuple[Node, Exchange | None, Indexed], tuple[Index, NodePart]] = field(default_factory=dict)

    def emit(self, node: Node) -> None:
        """Append the operator of a node."""
        part = self._parts.add(node)
        distributed = self._distribution(node)
        with self._program.building(part):
            streams = [self._exchange(node.inputs[side], distributed.exchanges[side]) for side in self._sides(node)]
            stream = self._stream(node, streams)
            self._streams[node] = self._in_ranges(stream, distributed.distribution)
        part.rows_cell = stream.size
        self.compiled.node_parts.append(part)

    def answer(self, name: str, plan: Node) -> None:
        """Append the collection of an answer."""
        part = NodePart(node=plan, role=Answer(name), columns=plan.schema.names)
        with self._program.building(part):
            stream = self._exchange(plan, self.partitioned.answers[name])
            if not is_consolidated(plan):
                stream = consolidate(stream, plan.schema.names)
            self.compiled.roots[name] = collect(stream, plan.schema)
        part.rows_cell = stream.size
        self.compiled.node_parts.append(part)

    @property
    def _program(self) -> Program:
        return self.compiled.program

    @property
    def _building(self) -> NodePart:
        """The part under construction."""
        part = self._program.part
        assert isinstance(part, NodePart)
        return part

    def _columns(self, node: Node) -> tuple[str, ...]:
        return self.shared.pruned.columns[node]

    def _distribution(self, node: Node) -> OperatorDistribution:
        return self.partitioned.operators[node]

    def _sides(self, node: Node) -> list[int]:
        """Return the inputs whose streams a node reads: not those from existing arrangements or below a filter."""
        if isinstance(node, nodes.Iterate):
            return [0]
        elsewhere = {*self.shared.existing, *self.shared.residual} if isinstance(node, nodes.Join) else ()
        return [side for side in range(len(node.inputs)) if (node, side) not in elsewhere]

    def _stream(self, node: Node, streams: Sequence[Stream]) -> Stream:
        """Append the operator of a node over the streams of its inputs."""
        match node:
            case nodes.Input():
                return self._input(node)
            case nodes.Filter():
                return linear.where(streams[0], node)
            case nodes.Project():
                return linear.select(streams[0], node)
            case nodes.Negate():
                return linear.negate(streams[0])
            case nodes.Concat():
                return linear.concat(self._program, streams, self._columns(node))
            case nodes.Aggregate():
                return self._aggregate(node, streams[0])
            case nodes.Threshold():
                return aggregates.threshold(streams[0], node)
            case nodes.Join():
                return self._join(node)
            case nodes.Extreme():
                names = self._columns(node)
                select = dict.fromkeys([node.column, *names])
                return self._in_two_phases(node, lambda stream: extreme(stream, node, names), streams[0], select)
            case nodes.TopK():
                return self._in_two_phases(node, lambda stream: top(stream, node), streams[0], node.schema.names)
            case nodes.MovingThreshold():
                return moving_threshold(streams[0], streams[1], node, self._columns(node))
            case nodes.NullRow():
                return null_row(streams[0], node, everywhere=self._distribution(node).distribution == WHOLE)
            case nodes.Consolidate():
                return consolidate(streams[0], self._columns(node))
            case nodes.Iterate():
                return self._iterate(node)
            case nodes.Variable():
                raise DeltamarkError("rows of a loop outside of it", node, "use the result of iterate")
            case nodes.Extend() | nodes.Seek() | nodes.Measure():
                return self._extend(node, streams[0])
            case _:
                assert_never(node)

    def _input(self, node: nodes.Input) -> Stream:
        reader = self.compiled.inputs.setdefault(node.name, linear.InputReader(self._program, node))
        if reader.node is not node:
            raise DeltamarkError("two inputs of one name", node.name, "declare each input once")
        return reader.stream(self._columns(node))

    def _aggregate(self, node: nodes.Aggregate, stream: Stream) -> Stream:
        append: aggregates.AppendOperator = self._program.add
        if self._distribution(node).distribution.kind == "scanned":
            append = partial(prefix_aggregate, self._program)
            self._building.remark = "each worker sums its slices and sends sums instead of rows"
        return aggregates.aggregate(stream, node, append)

    def _in_two_phases(
        self, node: Node, select: Callable[[Stream], Stream], stream: Stream, names: Iterable[str]
    ) -> Stream:
        """Select rows at each worker, and, if the node is distributed so, among the selected ones at the first."""
        second = self._distribution(node).second
        if second is None:
            return select(stream)
        self._building.remark = "each worker selects among its rows, and one worker among the selected rows"
        columns = {name: node.schema[name] for name in names}
        moved, mailboxes = exchange(select(stream), ANYWHERE, second, columns)
        self.compiled.exchanges.append(mailboxes)
        return select(moved)

    def _exchange(self, node: Node, by: Exchange | None) -> Stream:
        """Return a node's stream after an exchange, which is emitted once for all readers."""
        if by is not None and (node, by) not in self._exchanged:
            part = NodePart(node=node, role=by, columns=self._columns(node), reads=[(self._parts[node],)])
            with self._program.building(part):
                moved = self._moved(node, by)
            part.rows_cell = moved.size
            self.compiled.node_parts.append(part)
            self._exchanged[node, by] = moved, part
        stream, read = (self._streams[node], self._parts[node]) if by is None else self._exchanged[node, by]
        self._program.part.uses.add(stream.part)
        self._building.read(read)
        return stream

    def _moved(self, node: Node, by: Exchange) -> Stream:
        columns = {name: node.schema[name] for name in self._columns(node)}
        self._program.part.uses.add(self._streams[node].part)
        if by.to == "slice":
            assert isinstance(node, nodes.Input)
            return self.compiled.inputs[node.name].slice()
        if by.dealt:
            moved = deal(self._streams[node], by, columns)
        else:
            moved, mailboxes = exchange(self._streams[node], self._distribution(node).distribution, by, columns)
            self.compiled.exchanges.append(mailboxes)
        return self._in_ranges(moved, by.applied())

    def _in_ranges(self, stream: Stream, distribution: Distribution) -> Stream:
        """Number the keys of a stream densely if its worker owns ranges of them."""
        if distribution.low is None:
            return stream
        partition = KeyPartition(distribution.by[0], distribution.low, self._program.workers, self._program.worker)
        return replace(stream, partition=partition)

    def _join(self, node: nodes.Join) -> Stream:
        self._building.reads.clear()  # its arrangements read the streams
        arrangements, conditions = zip(*(self._arrangement(node, side) for side in (0, 1)), strict=True)
        origins = {name: self.shared.pruned.origin(node, name) for name in self._columns(node)}
        columns = {name: (side, self.shared.inputs[node, side].terms[of]) for name, (side, of) in origins.items()}
        return join(self._program, arrangements, conditions, columns)

    def _arrangement(self, node: nodes.Join, side: int) -> tuple[Arrangement, Term | None]:
        """Return the arrangement that one side of a join reads, and its residual filter."""
        of = self.shared.inputs[node, side]
        names = of.names(node.keys[side])
        key = ArrangementKey(of.node, self._distribution(node).exchanges[side], names, node.key_types)
        found = self.shared.existing.get((node, side))
        found = found or self.compiled.arrangement(key, self.shared.stored[of.node, names], of.condition)
        if found is None:
            found = self._arrange(key)
            self.compiled.arrangements.append(found)
        self._building.read(*self._parts.applied(node, side, of.node), found.part)
        return found.arrangement, of.condition

    def _arrange(self, key: ArrangementKey) -> SharedArrangement:
        program = self._program
        part = NodePart(node=key.node, role=key.names, columns=self._columns(key.node))
        with program.building(part):
            stream = self._exchange(key.node, key.exchange)
            terms = self._stored_terms(key)
            names = sorted({*key.names, *(name for term in terms for name in term.columns)})
            if repeats_rows(key.node, names):
                stream = replace(consolidate(stream, names), partition=stream.partition)
                part.remark = "equal rows are added up first"
            part.rows_cell = stream.size
            number = key_of(stream, key.names, key.types, self.compiled.interners.get(key.types))
            if number.interner is not None:
                self.compiled.interners[key.types] = number.interner
            rows = row_count(key.node)
            keys = key_ids(program, number, rows, stream.size)
            arrangement = arrange(stream, ArrangedKey(key.names, key.types, number), keys, terms, rows.expected)
            program.add_late(Opcode.SETTLE, LateBlock, block=arrangement.block)
            program.add_state(arrangement)
        self.compiled.node_parts.append(part)
        return SharedArrangement(key, arrangement, part)

    def _stored_terms(self, key: ArrangementKey) -> list[Term]:
        """Return the terms that an arrangement stores, the bitmap of its filters included."""
        at = key.node, key.names
        conditions = self.shared.filters.get(at)
        return [*self.shared.stored[at], *([filter_bitmap(conditions)] if conditions else [])]

    def _extend(self, node: nodes.Extend | nodes.Seek | nodes.Measure, stream: Stream) -> Stream:
        names = self._columns(node)
        if is_counted(node, names):
            self._building.remark = f"values of {node.column} are counted, not listed"
        exchanges = self._distribution(node).exchanges[1:]
        del self._building.reads[1:]  # its indexes read the other streams
        indexes = [self._index(read, by) for read, by in zip(node.indexes, exchanges, strict=True)]
        return extend(stream, node, indexes, names)

    def _index(self, read: nodes.IndexRead, by: Exchange | None) -> Index:
        """Return an index, which is emitted once for all readers."""
        node = read.rows
        of = Indexed(read.keys, read.value, self.shared.index_types[node, read.keys, read.value])
        if (node, by, of) not in self._indexes:
            part = NodePart(node=node, role=of, columns=self._columns(node))
            with self._program.building(part):
                stream = self._exchange(node, by)
                part.rows_cell = stream.size
                new = index(stream, of, node.schema[read.value], row_count(node))
                settle(self._program, new)
            self.compiled.node_parts.append(part)
            self._indexes[node, by, of] = new, part
        found, part = self._indexes[node, by, of]
        self._building.read(part)
        return found

    def _iterate(self, loop: nodes.Iterate) -> Stream:
        parts = {each: self._parts.add(each) for each in inside(loop)}
        self.compiled.node_parts += parts.values()
        self._program.part.uses.update(parts.values())
        joins = {}
        for each, part in parts.items():
            if isinstance(each, nodes.Join):
                with self._program.building(part):
                    joins[each] = self._loop_join(each)
            arranged = part.reads
            part.reads = [arranged[0] if arranged and of not in parts else (self._parts[of],) for of in each.inputs]
        body = Body(self._program, loop, self.shared.pruned.columns, joins, parts)
        stream = body.compile(lambda of: self._exchange(of, None))
        self._building.reads = [(self._parts[loop.seed],), (parts[loop.body],)]
        return stream

    def _loop_join(self, node: nodes.Join) -> LoopJoin:
        """Arrange the side of a join inside a loop that comes from outside."""
        side = 0 if node.left in self.shared.pruned.looping else 1
        terms = self.shared.inputs[node, 1 - side].terms
        outer = {name: terms[name] for name in self._columns(node) if (name in node.left.schema) == (side == 1)}
        return LoopJoin(side, node.key_types, self._arrangement(node, 1 - side)[0], outer)
