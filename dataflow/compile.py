"""Plans -> a program: one operator a node, one arrangement a collection and key, however many use them.

Two passes: what columns does each node owe to those above it, and which of them must be stored; then the operators,
inputs first, each after the exchanges that it needs where there are several workers. Arrangements settle at the end,
when all have read them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from dataflow.kernels import run as vm
from dataflow.operators import group, linear
from dataflow.operators.arrangement import Arrangement, Weights, arrange
from dataflow.operators.bound import bound
from dataflow.operators.exchange import Exchange, exchange
from dataflow.operators.extreme import extreme
from dataflow.operators.join import join
from dataflow.operators.or_null import or_null
from dataflow.operators.scan import scan
from dataflow.operators.text import places_of_numbers
from dataflow.operators.top import top
from dataflow.placement import ANYWHERE, FIRST, Delivery, Layout, Placement, by_row, delivered, layout
from dataflow.plan import Node, base_rows, walk
from dataflow.program import LOOSE, Program, State
from dataflow.stream import Deal, Interner, Stream
from dataflow.types import Type
from deltamark import DeltamarkError

T = TypeVar("T")

Arranged = tuple[Node, Delivery | None, tuple[str, ...], tuple[Type, ...]]

CONSOLIDATED = ("aggregate", "threshold", "extreme", "top", "bound", "or_null", "consolidate")
"""Operators whose output has one update a row and time."""


@dataclass(frozen=True)
class Root:
    """A maintained answer: the block that collects it, and where each worker collects time, diff and the arrays.

    Of a text the arrays are two: where it starts, and its length.
    """

    names: tuple[str, ...]
    arrays: tuple[str, ...]
    texts: tuple[str, ...]
    block: int
    vectors: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Built:
    """What was built for a node, its arrangement or its delivery: the states, and the memory behind them."""

    node: Node
    how: tuple[str, ...] | Delivery | None
    states: tuple[State, ...]
    memory: tuple[int, ...]


@dataclass(frozen=True)
class Met:
    """What a join meets on one side: a node, and the names there of the columns that it needs."""

    node: Node
    names: Mapping[str, str]

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.names[name] for name in names)


@dataclass
class Compiled:
    program: Program
    inputs: dict[str, tuple[Node, linear.Input]] = field(default_factory=dict)
    roots: list[Root] = field(default_factory=list)
    arrangements: list[Arrangement] = field(default_factory=list)
    built: list[Built] = field(default_factory=list)
    readers: dict[int, list[Node]] = field(default_factory=lambda: defaultdict(list))
    """The nodes that read an arrangement or a delivery, by its place in `built`."""
    shared: dict[Node, str] = field(default_factory=dict)
    """How several workers do without moving rows what they do together."""
    exchanges: list[Exchange] = field(default_factory=list)
    owed: dict[Node, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """The columns of each node that anybody uses."""
    block: int = 0


def compile_plans(plans: Sequence[Node], workers: int = 1) -> Compiled:
    """Compile plans to the program that each of so many workers runs."""
    return _Compiler(plans, workers).compiled


class _Compiler:
    def __init__(self, plans: Sequence[Node], workers: int) -> None:
        self.compiled = Compiled(Program(workers))
        self._program = self.compiled.program
        nodes = list(dict.fromkeys(node for plan in plans for node in walk(plan)))
        self._owed = self.compiled.owed
        self._stored: dict[tuple[Node, tuple[str, ...]], dict[str, None]] = defaultdict(dict)
        self._met: dict[tuple[Node, int], Met] = {}
        self._streams: dict[Node, Stream] = {}
        self._layouts: dict[Node, Layout] = {}
        self._moved: dict[tuple[Node, Delivery], Stream] = {}
        self._arrivals: dict[tuple[Node, Delivery], int] = {}
        self._arranged: dict[Arranged, Arrangement] = {}
        self._places: dict[Arranged, int] = {}
        self._interners: dict[tuple[Type, ...], Interner] = {}
        """Of the keys of joins: both sides must number rows alike."""
        for plan in plans:
            self._owe(plan, plan.schema.names)
        for node in reversed(nodes):
            self._ask(node)
        for node in nodes:
            self._layouts[node] = self._layout(node)
            deliveries = zip(node.inputs, self._layouts[node].deliveries, strict=True)
            inputs = [self._delivered(of, delivery, node) for of, delivery in deliveries]
            made = self._note(node, None, partial(self._stream, node, inputs))
            self._streams[node] = self._dealt(made, self._layouts[node].placement)
        for plan in plans:
            self.compiled.roots.append(self._collect(plan))
        for each in self.compiled.arrangements:
            self._settle(each)
        self.compiled.block = self._program.start([each.block for _, each in self.compiled.inputs.values()])

    def _layout(self, node: Node) -> Layout:
        if self._program.workers == 1:
            return Layout((None,) * len(node.inputs), FIRST)
        types = key_types(node) if node.op in ("join", "bound") else ()
        return layout(node, [self._layouts[each].placement for each in node.inputs], self._owed, types)

    def _delivered(self, of: Node, delivery: Delivery | None, reader: Node | None = None) -> Stream:
        """Return a node's stream where a reader needs it."""
        if delivery is None:
            return self._streams[of]
        if (of, delivery) not in self._moved:
            columns = {name: of.schema[name] for name in self._owed[of]}
            move = partial(self._exchange, self._streams[of], self._layouts[of].placement, delivery, columns)
            made = self._note(of, delivery, move)
            self._moved[of, delivery] = self._dealt(made, delivered(self._layouts[of].placement, delivery))
            self._arrivals[of, delivery] = len(self.compiled.built) - 1
        if reader is not None:
            self.compiled.readers[self._arrivals[of, delivery]].append(reader)
        return self._moved[of, delivery]

    def _dealt(self, stream: Stream, placement: Placement) -> Stream:
        """Say of a stream how its rows are dealt."""
        if placement.low is None:
            return stream
        deal = Deal(placement.by[0], placement.low, self._program.workers, self._program.worker)
        return replace(stream, deal=deal)

    def _exchange(self, stream: Stream, origin: Placement, delivery: Delivery, columns: Mapping[str, Type]) -> Stream:
        moved, made = exchange(stream, origin, delivery, columns)
        self.compiled.exchanges.append(made)
        return moved

    def _again(self, node: Node, build: Callable[[Stream], Stream], stream: Stream, names: Iterable[str]) -> Stream:
        """Let one worker do again, with what all workers have found, what each of them did with its own rows."""
        delivery = self._layouts[node].again
        if delivery is None:
            return build(stream)
        self.compiled.shared[node] = "each worker picks of its rows, and one of what they picked"
        columns = {name: node.schema[name] for name in names}
        return build(self._exchange(build(stream), ANYWHERE, delivery, columns))

    def _note(self, node: Node, how: tuple[str, ...] | Delivery | None, build: Callable[[], T]) -> T:
        """Build something, and write down what belongs to it and not to what it builds on the way."""
        memory, states = set(self._program.memory.reservations()), set(self._program.states)
        before = len(self.compiled.built)
        made = build()
        for each in self.compiled.built[before:]:
            memory |= set(each.memory)
            states |= {at for at, state in self._program.states.items() if state in each.states}
        mine = [at for at in self._program.memory.reservations() if at not in memory | self._program.scratch()]
        kept = [state for at, state in self._program.states.items() if at not in states]
        self.compiled.built.append(Built(node, how, tuple(kept), tuple(mine)))
        return made

    def _owe(self, node: Node, names: Sequence[str]) -> None:
        self._owed[node].update(dict.fromkeys(names))

    def _ask(self, node: Node) -> None:
        """Ask the inputs of a node for what it needs."""
        owed = list(self._owed[node])
        match node.op:
            case "where":
                self._owe(node.inputs[0], [*owed, *sorted(node.params.columns)])
            case "select":
                terms = dict(node.params)
                self._owe(node.inputs[0], [name for each in owed for name in sorted(terms[each].columns)])
            case "aggregate":
                keys, sums = node.params
                used = [name for _, _, term in sums if term is not None for name in sorted(term.columns)]
                self._owe(node.inputs[0], [*keys, *used])
            case "join":
                for side in (0, 1):
                    mine = [name for name in owed if (name in node.inputs[0].schema) == (side == 0)]
                    self._owe(node.inputs[side], [*node.params[side], *mine])
                    met = self._below(node.inputs[side], [*node.params[side], *mine])
                    self._stored[met.node, met.of(node.params[side])].update(dict.fromkeys(met.of(mine)))
                    self._met[node, side] = met
            case "extreme":
                keys, of, _, _ = node.params
                self._owe(node.inputs[0], [of, *keys, *owed])
            case "bound":
                mine, theirs, value, _, *limit = node.params
                self._owe(node.inputs[0], [*mine, *sorted(value.columns), *owed])
                self._owe(node.inputs[1], [*theirs, *filter(None, limit)])
            case "threshold" | "top" | "or_null":
                self._owe(node.inputs[0], node.schema.names)
            case _:
                for each in node.inputs:
                    self._owe(each, owed)

    def _below(self, node: Node, names: Sequence[str]) -> Met:
        """Look through what only picks columns: joins of the same rows by the same key share an arrangement."""
        found = {name: name for name in names}
        while self._program.workers == 1 and node.op == "select":
            terms = dict(node.params)
            if any(terms[name].op != "column" for name in found.values()):
                break
            found = {name: terms[below].value for name, below in found.items()}
            node = node.inputs[0]
        return Met(node, found)

    def _sides(self, node: Node) -> dict[str, tuple[bool, str]]:
        """Where each column that a join owes comes from."""
        left = node.inputs[0].schema
        return {name: (name in left, self._met[node, int(name not in left)].names[name]) for name in self._owed[node]}

    def _stream(self, node: Node, streams: Sequence[Stream]) -> Stream:
        match node.op:
            case "input":
                if node.params in self.compiled.inputs:
                    raise DeltamarkError("two inputs of one name", node.params, "declare each input once")
                stream, block = linear.source(self._program, node, tuple(self._owed[node]))
                self.compiled.inputs[node.params] = node, block
                return stream
            case "where":
                return linear.where(streams[0], node)
            case "select":
                return linear.select(streams[0], node)
            case "negate":
                return linear.negate(streams[0])
            case "concat":
                return linear.concat(self._program, streams, tuple(self._owed[node]))
            case "aggregate":
                append: group.Append = Program.op
                if self._layouts[node].placement.kind == "scanned":
                    append = scan
                    self.compiled.shared[node] = "each worker sums its slices and tells the others"
                return group.aggregate(streams[0], node, base_rows(node), append)
            case "threshold":
                return group.threshold(streams[0], node, base_rows(node))
            case "join":
                left, right = (self._arrangement(node, side) for side in (0, 1))
                return join(self._program, left, right, self._sides(node))
            case "extreme":
                owed = tuple(self._owed[node])
                names = dict.fromkeys([node.params[1], *owed])
                return self._again(node, lambda stream: extreme(stream, node, owed), streams[0], names)
            case "top":
                return self._again(node, lambda stream: top(stream, node), streams[0], node.schema.names)
            case "bound":
                return bound(streams[0], streams[1], node, key_types(node), tuple(self._owed[node]))
            case "or_null":
                return or_null(streams[0], node)
            case "consolidate":
                return self._consolidated(streams[0], tuple(self._owed[node]))
        raise DeltamarkError("this engine cannot run", node.op, "leave it out")

    def _arrangement(self, node: Node, side: int) -> Arrangement:
        """Return the arrangement of one side of a join, whose keys span those of both."""
        delivery = self._layouts[node].deliveries[side]
        met = self._met[node, side]
        keys = met.of(node.params[side])
        what = (met.node, delivery, keys, key_types(node))
        if what not in self._arranged:
            self._arranged[what] = self._note(met.node, keys, partial(self._arrange, what))
            self._places[what] = len(self.compiled.built) - 1
        self.compiled.readers[self._places[what]].append(node)
        return self._arranged[what]

    def _arrange(self, what: Arranged) -> Arrangement:
        of, delivery, names, types = what
        stream = self._delivered(of, delivery)
        key = stream.key(names, types, self._interners.get(types))
        if key.interner is not None:
            self._interners[types] = key.interner
        keys = self._program.keys(key, base_rows(of), stream.size)
        made = arrange(stream, key.cell, keys, tuple(self._stored[of, names]))
        self.compiled.arrangements.append(made)
        return made

    def _settle(self, each: Arrangement) -> None:
        """Append the settling of an arrangement: the same block, under another opcode."""
        self._program.op(vm.SETTLE, each.block)
        self._program.keep(each)

    def _consolidated(self, stream: Stream, names: Sequence[str]) -> Stream:
        program = self._program
        inputs = program.table([stream.time, stream.diff, *map(stream.column, names)])
        out = [program.vector() for _ in range(len(names) + 2)]
        buffer = program.table([program.memory.reserve(LOOSE) for _ in out])
        mask = (1 << 14) - 1
        size, table = program.cell(), program.memory.reserve(mask + 1)
        program.op(
            vm.CONSOLIDATE,
            stream.size,
            len(out),
            inputs,
            program.frontier,
            0,
            buffer,
            table,
            mask,
            size,
            program.table(out),
        )
        program.keep(Weights())
        made = dict(zip(names, out[2:], strict=True))
        return Stream(program, size, out[0], out[1], made.__getitem__, made)

    def _collect(self, plan: Node) -> Root:
        program, names, stream = self._program, plan.schema.names, self._streams[plan]
        if not _consolidated(plan):
            stream = self._consolidated(
                self._delivered(plan, by_row(plan, self._layouts[plan].placement, self._owed)), names
            )
        arrays = {}
        for name in names:
            if plan.schema[name].kind == "text":
                places = places_of_numbers(program, stream.size, stream.column(name))
                arrays[name], arrays[f"{name}{linear.BYTES}"] = places.start, places.length
            else:
                arrays[name] = stream.column(name)
        inputs = [stream.time, stream.diff, *arrays.values()]
        vectors = tuple(zip(*(program.for_each_worker(LOOSE) for _ in inputs), strict=True))
        table = program.table(list(vectors[0]))
        for place in range(len(inputs)):
            program.differ(table + 8 * place, [mine[place] for mine in vectors])
        block = program.op(vm.COLLECT, 0, stream.size, len(inputs), program.table(inputs), table, 0)
        texts = tuple(name for name in names if plan.schema[name].kind == "text")
        return Root(names, tuple(arrays), texts, block, vectors)


def key_types(node: Node) -> tuple[Type, ...]:
    """Return the types of the keys that two inputs meet by, spanning those of both."""
    pairs = zip(*(tuple(node.inputs[each].schema[name] for name in node.params[each]) for each in (0, 1)), strict=True)
    return tuple(replace(a, low=min(a.low, b.low), high=max(a.high, b.high)) for a, b in pairs)


def _consolidated(node: Node) -> bool:
    """Has a node's stream one update a row and time? A select that keeps every column does not change that."""
    if node.op == "select":
        kept = {term.value for _, term in node.params if term.op == "column"}
        return kept >= set(node.inputs[0].schema.names) and _consolidated(node.inputs[0])
    return node.op in CONSOLIDATED
