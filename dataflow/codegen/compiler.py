"""Plans -> a program: one operator a node, one arrangement a collection and key, however many use them.

Two passes: what columns does each node owe to those above it, and which of them must be stored; then the operators,
inputs first, each after the exchanges that it needs where there are several workers. Arrangements settle at the end,
when all have read them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from deltamark.dataflow.batch import BYTES
from deltamark.dataflow.codegen.buffers import reuse
from deltamark.dataflow.codegen.columns import Deal, Stream
from deltamark.dataflow.codegen.compiled import Arranged, Built, Compiled, Kept, Root
from deltamark.dataflow.codegen.loop_body import Body, Joined
from deltamark.dataflow.codegen.program import LOOSE, Op, Part, Program
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.arrangements.consolidate import Consolidate
from deltamark.dataflow.language.iteration import inside
from deltamark.dataflow.operators import group, linear
from deltamark.dataflow.operators.arrangement import Arrangement, Weights, arrange
from deltamark.dataflow.operators.exchange import exchange
from deltamark.dataflow.operators.extreme import extreme
from deltamark.dataflow.operators.join import join
from deltamark.dataflow.operators.motifs.extend import extend, is_counted
from deltamark.dataflow.operators.motifs.index import Index, Indexed, index, settled
from deltamark.dataflow.operators.moving_threshold import moving_threshold
from deltamark.dataflow.operators.null_row import null_row
from deltamark.dataflow.operators.prefix_aggregate import prefix_aggregate
from deltamark.dataflow.operators.text import places_of_numbers
from deltamark.dataflow.operators.top import top
from deltamark.dataflow.plan.nodes import Node, base_rows, walk
from deltamark.dataflow.plan.partitioning import ANYWHERE, FIRST, Delivery, Layout, Placement, by_row, delivered, layout
from deltamark.dataflow.plan.sharing import Asked, Met, choose, expected, met, told
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import Type, spanning
from deltamark.errors import DeltamarkError

CONSOLIDATED = ("aggregate", "threshold", "extreme", "top", "bound", "or_null", "consolidate", "iterate")
"""Operators whose output has one update a row and time."""


def compile_plans(plans: Mapping[str, Node], workers: int = 1) -> Compiled:
    """Compile plans to the program that each of so many workers runs."""
    compiled = Compiled(Program(workers))
    compile_into(compiled, plans)
    return compiled


@dataclass(frozen=True)
class Added:
    """What was compiled into a program: its operators, the columns of inputs, and of nodes, that they read, and the
    arrangements that were there before.
    """

    ops: Sequence[Op]
    read: Mapping[str, tuple[str, ...]]
    owed: Mapping[Node, dict[str, None]]
    found: Sequence[Kept]


def compile_into(compiled: Compiled, plans: Mapping[str, Node]) -> Added:
    """Compile more plans. They share the arrangements that are there, and among themselves all that is equal."""
    program = compiled.program
    before, vectors = len(program.ops), program.vectors()
    compiler = _Compiler(compiled, plans)
    compiler.compile()
    added = program.ops[before:]
    reuse(program, added, program.vectors() - vectors)
    return Added(added, compiler.read, compiler.owed, compiler.found)


class _Compiler:
    def __init__(self, compiled: Compiled, plans: Mapping[str, Node]) -> None:
        self._compiled = compiled
        self._program = compiled.program
        self._plans = plans
        self._owed: dict[Node, dict[str, None]] = defaultdict(dict)
        self.owed: dict[Node, dict[str, None]] = {}
        """The columns of each node that anybody uses, were no filter left to readers."""
        self._stored: dict[tuple[Node, tuple[str, ...]], dict[Term, None]] = defaultdict(dict)
        self._met: dict[tuple[Node, int], Met] = {}
        self._found: dict[tuple[Node, int], Kept] = {}
        """The sides of joins whose arrangement was there before."""
        self._asked: dict[tuple[Node, int], Asked] = {}
        self._residual: dict[tuple[Node, int], Term] = {}
        """The sides of joins that leave rows out of what an arrangement has."""
        self._told: dict[tuple[Node, tuple[str, ...]], dict[Term, None]] = defaultdict(dict)
        """The conditions of these, by what is arranged."""
        self._indexed: dict[tuple[Node, tuple[str, ...], str], tuple[Type, ...]] = {}
        """The types of the keys of indexes, which span those of all rows that they extend."""
        self._indexes: dict[tuple[Node, Delivery | None, Indexed], tuple[Index, Built]] = {}
        """What is compiled later has its own: its rules must see the past come row by row."""
        self._streams: dict[Node, Stream] = {}
        self._layouts: dict[Node, Layout] = {}
        self._moved: dict[tuple[Node, Delivery], Stream] = {}
        self._inside: set[Node] = set()
        """What goes round a loop."""

    def compile(self) -> None:
        nodes = list(dict.fromkeys(node for plan in self._plans.values() for node in walk(plan)))
        self._inside = {each for node in nodes if node.op == "iterate" for each in inside(node)}
        self._ask_all(nodes)
        self.owed = {node: dict(names) for node, names in self._owed.items()}
        self._residual, choices = choose(self._asked)
        self._compiled.choices += choices
        if self._residual:
            self._owed.clear()
            self._stored.clear()
            self._ask_all(nodes)
        for node in nodes:
            if node in self._owed and node not in self._inside:
                self._build(node)
        for name, plan in self._plans.items():
            part = Part()
            with self._program.building(part):
                self._compiled.roots[name] = self._collect(plan)

    def _ask_all(self, nodes: Sequence[Node]) -> None:
        for plan in self._plans.values():
            self._owe(plan, plan.schema.names)
        for node in reversed(nodes):
            if node in self._owed:
                self._ask(node)

    @property
    def found(self) -> list[Kept]:
        """The arrangements that were there before."""
        return list(dict.fromkeys(self._found.values()))

    @property
    def read(self) -> dict[str, tuple[str, ...]]:
        """The columns of inputs that are read."""
        return {node.params: tuple(owed) for node, owed in self._owed.items() if node.op == "input"}

    def _build(self, node: Node) -> None:
        self._layouts[node] = self._layout(node)
        part = Built(node=node, how=None)
        with self._program.building(part):
            sides = [side for side in self._sides_outside(node) if (node, side) not in {*self._found, *self._residual}]
            streams = [self._delivered(node.inputs[side], self._layouts[node].deliveries[side], part) for side in sides]
            made = self._dealt(self._stream(node, streams), self._layouts[node].placement)
        self._compiled.built.append(part)
        self._streams[node] = made

    def _sides_outside(self, node: Node) -> list[int]:
        return [side for side, of in enumerate(node.inputs) if of not in self._inside]

    def _layout(self, node: Node) -> Layout:
        if self._program.workers == 1:
            return Layout((None,) * len(node.inputs), FIRST)
        if node.op == "iterate":
            raise DeltamarkError("a loop runs on one worker", f"{self._program.workers} workers", "give one worker")
        types = key_types(node) if node.op in ("join", "bound") else ()
        return layout(node, [self._layouts[each].placement for each in node.inputs], self._owed, types)

    def _delivered(self, of: Node, delivery: Delivery | None, reader: Built | None = None) -> Stream:
        """Return a node's stream where a reader needs it."""
        if delivery is not None and (of, delivery) not in self._moved:
            part = Built(node=of, how=delivery)
            with self._program.building(part):
                self._moved[of, delivery] = self._move(of, delivery)
            self._compiled.built.append(part)
        found = self._streams[of] if delivery is None else self._moved[of, delivery]
        self._program.part.uses.add(found.part)
        if delivery is not None and reader is not None:
            self._compiled.readers[found.part].append(reader)
        return found

    def _move(self, of: Node, delivery: Delivery) -> Stream:
        columns, placement = {name: of.schema[name] for name in self._owed[of]}, self._layouts[of].placement
        self._program.part.uses.add(self._streams[of].part)
        made = self._exchange(self._streams[of], placement, delivery, columns)
        return self._dealt(made, delivered(placement, delivery))

    def _dealt(self, stream: Stream, placement: Placement) -> Stream:
        """Say of a stream how its rows are dealt."""
        if placement.low is None:
            return stream
        deal = Deal(placement.by[0], placement.low, self._program.workers, self._program.worker)
        return replace(stream, deal=deal)

    def _exchange(self, stream: Stream, origin: Placement, delivery: Delivery, columns: Mapping[str, Type]) -> Stream:
        moved, made = exchange(stream, origin, delivery, columns)
        self._compiled.exchanges.append(made)
        return moved

    def _again(self, node: Node, build: Callable[[Stream], Stream], stream: Stream, names: Iterable[str]) -> Stream:
        """Let one worker do again, with what all workers have found, what each of them did with its own rows."""
        delivery = self._layouts[node].again
        if delivery is None:
            return build(stream)
        self._compiled.shared[node] = "each worker picks of its rows, and one of what they picked"
        columns = {name: node.schema[name] for name in names}
        return build(self._exchange(build(stream), ANYWHERE, delivery, columns))

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
                origins = [self._origin(node, name) for name in owed]
                for side in (0, 1):
                    self._ask_side(node, side, [name for origin, name in origins if origin == side])
            case "extreme":
                keys, of, _, _ = node.params
                self._owe(node.inputs[0], [of, *keys, *owed])
            case "bound":
                mine, theirs, value, _, *limit = node.params
                self._owe(node.inputs[0], [*mine, *sorted(value.columns), *owed])
                self._owe(node.inputs[1], [*theirs, *filter(None, limit)])
            case "threshold" | "top" | "or_null" | "iterate":
                for each in node.inputs:
                    self._owe(each, node.schema.names)
            case "extend" | "seek" | "measure":
                self._ask_extend(node, owed)
            case _:
                for each in node.inputs:
                    self._owe(each, owed)

    def _origin(self, node: Node, name: str) -> tuple[int, str]:
        """Say which side of a join a column comes from, and its name there: of a key it is the side with fewer rows."""
        (mine, theirs), (left, right) = node.params, node.inputs
        if name not in left.schema:
            return 1, name
        if name in mine and node not in self._inside and expected(right) < expected(left):
            return 1, theirs[mine.index(name)]
        return 0, name

    def _ask_side(self, node: Node, side: int, mine: Sequence[str]) -> None:
        """Find the arrangement of one side of a join, or ask for what it stores."""
        of, keys, types = node.inputs[side], node.params[side], key_types(node)
        if of in self._inside:
            self._owe(of, [*keys, *mine])
            return
        alone = self._program.workers == 1
        above = met(of, keys, mine, ("select",) if alone else ())
        below = met(of, keys, mine, ("select", "where") if alone and node not in self._inside else ())
        for each in (above, below):
            what = (each.node, None, each.keys(keys), types)
            found = self._compiled.arrangement(what, each.of(mine), each.condition)
            if found is not None:
                self._met[node, side], self._found[node, side] = each, found
                return
        chosen = self._met[node, side] = below if (node, side) in self._residual else above
        self._asked[node, side] = Asked(keys, types, tuple(mine), above, below, expected(node.inputs[1 - side]))
        self._stored[chosen.node, chosen.keys(keys)].update(dict.fromkeys(chosen.of(mine)))
        if chosen.condition is None:
            self._owe(of, [*keys, *mine])
        else:
            self._owe(chosen.node, chosen.columns)
            self._told[chosen.node, chosen.keys(keys)][chosen.condition] = None

    def _ask_extend(self, node: Node, owed: Iterable[str]) -> None:
        rows, *others = node.inputs
        new, parts, _ = node.params
        wanted = dict.fromkeys([new, *owed])
        for other, (mine, theirs, value, _) in zip(others, parts, strict=True):
            self._owe(other, [*theirs, value])
            wanted |= dict.fromkeys(mine)
            types = tuple(map(spanning, (rows.schema[name] for name in mine), (other.schema[name] for name in theirs)))
            known = self._indexed.get((other, theirs, value), types)
            self._indexed[other, theirs, value] = tuple(map(spanning, known, types))
        self._owe(rows, [name for name in wanted if name in rows.schema])

    def _sides(self, node: Node) -> dict[str, tuple[bool, Term]]:
        """Where each column that a join owes comes from."""
        origins = {name: self._origin(node, name) for name in self._owed[node]}
        return {name: (side == 0, self._met[node, side].terms[there]) for name, (side, there) in origins.items()}

    def _stream(self, node: Node, streams: Sequence[Stream]) -> Stream:
        match node.op:
            case "input":
                block = self._compiled.inputs.setdefault(node.params, linear.Input(self._program, node))
                if block.node is not node:
                    raise DeltamarkError("two inputs of one name", node.params, "declare each input once")
                return block.stream(self._owed[node])
            case "where":
                return linear.where(streams[0], node)
            case "select":
                return linear.select(streams[0], node)
            case "negate":
                return linear.negate(streams[0])
            case "concat":
                return linear.concat(self._program, streams, tuple(self._owed[node]))
            case "aggregate":
                append: group.Append = self._program.add
                if self._layouts[node].placement.kind == "scanned":
                    append = partial(prefix_aggregate, self._program)
                    self._compiled.shared[node] = "each worker sums its slices and tells the others"
                return group.aggregate(streams[0], node, base_rows(node), append)
            case "threshold":
                return group.threshold(streams[0], node, base_rows(node))
            case "join":
                arranged, conditions = zip(*(self._arrangement(node, side) for side in (0, 1)), strict=True)
                return join(self._program, arranged, conditions, self._sides(node))
            case "extreme":
                owed = tuple(self._owed[node])
                names = dict.fromkeys([node.params[1], *owed])
                return self._again(node, lambda stream: extreme(stream, node, owed), streams[0], names)
            case "top":
                return self._again(node, lambda stream: top(stream, node), streams[0], node.schema.names)
            case "bound":
                return moving_threshold(streams[0], streams[1], node, key_types(node), tuple(self._owed[node]))
            case "or_null":
                return null_row(streams[0], node)
            case "consolidate":
                return self._consolidated(streams[0], tuple(self._owed[node]))
            case "iterate":
                return self._iterated(node)
            case "variable":
                raise DeltamarkError("rows of a loop outside of it", node, "use what iterate returns")
            case "extend" | "seek" | "measure":
                if is_counted(node, self._owed[node]):
                    self._compiled.shared[node] = f"values of {node.params[0]} are counted, not listed"
                indexes = [self._index(node, side) for side in range(1, len(node.inputs))]
                return extend(streams[0], node, indexes, self._owed[node])
        raise DeltamarkError("this engine cannot run", node.op, "leave it out")

    def _iterated(self, node: Node) -> Stream:
        parts = {each: Built(node=each, how=None) for each in inside(node)}
        self._compiled.built += parts.values()
        self._program.part.uses.update(parts.values())
        joins = {}
        for each, part in parts.items():
            self._layouts[each] = Layout((None,) * len(each.inputs), FIRST)
            if each.op == "join":
                with self._program.building(part):
                    joins[each] = self._joined(each)
        return Body(self._program, node, self._owed, joins, parts).compile(lambda of: self._delivered(of, None))

    def _joined(self, node: Node) -> Joined:
        """Arrange what a join inside a loop meets."""
        side = 0 if node.inputs[0] in self._inside else 1
        terms = self._met[node, 1 - side].terms
        others = {name: terms[name] for name in self._owed[node] if (name in node.inputs[0].schema) == (side == 1)}
        return Joined(side, key_types(node), self._arrangement(node, 1 - side)[0], others)

    def _arrangement(self, node: Node, side: int) -> tuple[Arrangement, Term | None]:
        """Return the arrangement of a side of a join, whose keys span those of both, and which of its rows it reads."""
        of = self._met[node, side]
        what = (of.node, self._layouts[node].deliveries[side], of.keys(node.params[side]), key_types(node))
        found = self._found.get((node, side))
        found = found or self._compiled.arrangement(what, self._stored[of.node, what[2]], of.condition)
        if found is None:
            found = self._arrange(what)
            self._compiled.kept.append(found)
        reader = self._program.part
        reader.uses.add(found.part)
        if isinstance(reader, Built):
            self._compiled.readers[found.part].append(reader)
        return found.arrangement, of.condition

    def _arrange(self, what: Arranged) -> Kept:
        of, delivery, names, types = what
        part = Built(node=of, how=names)
        with self._program.building(part):
            stream = self._delivered(of, delivery)
            key = stream.key(names, types, self._compiled.interners.get(types))
            if key.interner is not None:
                self._compiled.interners[types] = key.interner
            keys = self._program.keys(key, base_rows(of), stream.size)
            terms = [*self._stored[of, names], *told(tuple(self._told[of, names]))]
            made = arrange(stream, key.cell, keys, terms)
            self._program.late_op(vm.SETTLE, made.block)
            self._program.keep(made)
        self._compiled.built.append(part)
        return Kept(what, made, part)

    def _index(self, node: Node, side: int) -> Index:
        """Return the index of one of the inputs that extend the first one's rows."""
        of, delivery, (_, keys, value, _) = (
            node.inputs[side],
            self._layouts[node].deliveries[side],
            node.params[1][side - 1],
        )
        what = of, delivery, Indexed(keys, value, self._indexed[of, keys, value])
        if what not in self._indexes:
            part = Built(node=of, how=what[2])
            with self._program.building(part):
                made = index(self._delivered(of, delivery), what[2], of.schema[value], base_rows(of))
                settled(self._program, made)
            self._compiled.built.append(part)
            self._indexes[what] = made, part
        made, part = self._indexes[what]
        reader = self._program.part
        if isinstance(reader, Built) and part not in reader.uses:
            self._compiled.readers[part].append(reader)
        reader.uses.add(part)
        return made

    def _consolidated(self, stream: Stream, names: Sequence[str]) -> Stream:
        program = self._program
        inputs = program.table([stream.time, stream.diff, *map(stream.column, names)])
        out = [program.vector() for _ in range(len(names) + 2)]
        buffer = program.table([program.memory.reserve(LOOSE) for _ in out])
        mask = (1 << 14) - 1
        size, table = program.cell(), program.memory.reserve(mask + 1)
        program.add(
            vm.CONSOLIDATE, Consolidate, size=stream.size, columns=len(out), inputs=inputs, frontier=program.frontier,
            buffer=buffer, table=table, mask=mask, out_size=size, out=program.table(out),
        )  # fmt: skip
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
                arrays[name], arrays[f"{name}{BYTES}"] = places.start, places.length
            else:
                arrays[name] = stream.column(name)
        inputs = [stream.time, stream.diff, *arrays.values()]
        vectors = tuple(zip(*(program.for_each_worker(LOOSE) for _ in inputs), strict=True))
        table = program.table(list(vectors[0]))
        for place in range(len(inputs)):
            program.differ(table + 8 * place, [mine[place] for mine in vectors])
        block = program.op(vm.COLLECT, 0, stream.size, len(inputs), program.table(inputs), table, 0)
        texts = tuple(name for name in names if plan.schema[name].kind == "text")
        return Root(names, tuple(arrays), texts, block, vectors, program.part)


def key_types(node: Node) -> tuple[Type, ...]:
    """Return the types of the keys that two inputs meet by, spanning those of both."""
    left, right = (tuple(node.inputs[each].schema[name] for name in node.params[each]) for each in (0, 1))
    return tuple(map(spanning, left, right))


def _consolidated(node: Node) -> bool:
    """Has a node's stream one update a row and time? A select that keeps every column does not change that."""
    if node.op == "select":
        kept = {term.value for _, term in node.params if term.op == "column"}
        return kept >= set(node.inputs[0].schema.names) and _consolidated(node.inputs[0])
    return node.op in CONSOLIDATED
