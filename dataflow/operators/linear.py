"""Operators without state: filter, projection, negation and concatenation, which merges streams."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from deltamark.dataflow.builder.program import NO_VECTOR, BlockAddress, Program, VectorAddress
from deltamark.dataflow.builder.stream import Selection, Stream
from deltamark.dataflow.builder.terms import evaluate
from deltamark.dataflow.builder.texts import InputText, numbers_of
from deltamark.dataflow.kernels import expressions, filters
from deltamark.dataflow.kernels.core.blocks import Array, Block, Cell, Operator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.steps import step, words_of
from deltamark.dataflow.operators.distribution import (
    ANYWHERE,
    WHOLE,
    Columns,
    Distribution,
    Exchange,
    OperatorDistribution,
    fits,
    to_owner,
)
from deltamark.dataflow.operators.node import Emission, JoinReads, Keys, Node, Placing, Requirement, is_unique, walk
from deltamark.dataflow.plan.selectivity import DEFAULT_SELECTIVITY, column_ranges, other_conditions, selectivity
from deltamark.dataflow.plan.term_sql import identifier, sql
from deltamark.dataflow.plan.terms import (
    FALSE,
    Add,
    Coalesce,
    Column,
    Constant,
    IsNull,
    Less,
    Not,
    Subtract,
    Term,
    all_of,
    conjuncts,
)
from deltamark.dataflow.types import FOREVER


@dataclass(frozen=True, eq=False)
class Linear(Node):
    """An operator of one row at a time, which any worker can run on any rows."""

    rows: Node

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, columns)]

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return OperatorDistribution((None,), inputs[0])

    def is_open(self, placing: Placing) -> bool:
        return placing.is_free(self.rows)

    def preferred(self, keys: Keys) -> Iterable[tuple[Node, Keys]]:
        return [(self.rows, keys)]


@dataclass(frozen=True, eq=False)
class Filter(Linear):
    """The rows that satisfy a condition."""

    condition: Term

    def description(self, required: Collection[str]) -> str:
        return sql(self.condition)

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, [*columns, *sorted(self.condition.columns)])]

    def determines(self, names: frozenset[str]) -> bool:
        return self.condition is FALSE or is_unique(self.rows, names)

    def has_null(self, name: str) -> bool:
        is_tested = any(_is_not_null(each, name) for each in conjuncts(self.condition))
        return not is_tested and self.rows.has_null(name)

    def estimate(self, inputs: Sequence[float]) -> float:
        sums = self.rows.sum_columns
        terms = conjuncts(self.condition)
        of_sums = [each for each in terms if each.columns & sums]
        others = [each for each in terms if not each.columns & sums]
        kept_share = DEFAULT_SELECTIVITY ** len(of_sums) * (selectivity(all_of(others)) if others else 1.0)
        return inputs[0] * kept_share

    @property
    def sum_columns(self) -> frozenset[str]:
        return self.rows.sum_columns

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        """Select the rows; columns are taken when they are first read."""
        return selected_rows(_narrowed(Selection.of(streams[0]), self.condition))


def _is_not_null(condition: Term, name: str) -> bool:
    """Return whether a condition is that a column is not NULL."""
    match condition:
        case Not(IsNull(Column(tested))):
            return tested == name
    return False


@dataclass(frozen=True, eq=False)
class Project(Linear):
    """Named terms over each row."""

    columns: tuple[tuple[str, Term], ...]

    @cached_property
    def terms(self) -> Mapping[str, Term]:
        return dict(self.columns)

    @cached_property
    def copied(self) -> Mapping[str, str]:
        """The columns that are copied from the input, with their names in the input."""
        return {name: term.name for name, term in self.columns if isinstance(term, Column)}

    def description(self, required: Collection[str]) -> str:
        return ", ".join(_written(name, term) for name, term in self.columns if name in required)

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, [name for each in columns for name in sorted(self.terms[each].columns)])]

    def determines(self, names: frozenset[str]) -> bool:
        sources = (_source(self.terms[name], self.rows) for name in names if name in self.terms)
        return is_unique(self.rows, [source for source in sources if source is not None])

    def has_null(self, name: str) -> bool:
        return self.rows.has_null(self.copied[name]) if name in self.copied else super().has_null(name)

    @property
    def sum_columns(self) -> frozenset[str]:
        sums = self.rows.sum_columns
        return frozenset(name for name, source in self.copied.items() if source in sums)

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        """Follow the columns by which rows are owned; if one is dropped, their owner is unknown."""
        owned = inputs[0]
        if owned.kind == "owned":
            new = {old: name for name, old in reversed(list(self.copied.items()))}
            is_kept = set(owned.by) <= new.keys()
            owned = replace(owned, by=tuple(new[name] for name in owned.by)) if is_kept else ANYWHERE
        return OperatorDistribution((None,), owned)

    def below(self, wish: Distribution, placing: Placing) -> list[Distribution] | None:
        if wish.kind != "owned":
            return [wish]
        by = tuple(self.copied[name] for name in wish.by if name in self.copied)
        return [replace(wish, by=by)] if len(by) == len(wish.by) else None

    def preferred(self, keys: Keys) -> Iterable[tuple[Node, Keys]]:
        are_copied = all(name in self.copied for name in keys)
        return [(self.rows, tuple(self.copied[name] for name in keys) if are_copied else ())]

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        """Return a stream whose columns are computed when they are first read."""
        (stream,) = streams
        terms, copied = self.terms, self.copied
        raw = {name: stream.raw[source] for name, source in copied.items() if source in stream.raw}

        def input_text(name: str) -> InputText | None:
            source = copied.get(name)
            return None if source is None or source in stream.computed else stream.input_text(source)

        return Stream(
            stream.program, stream.size, stream.time, stream.diff, lambda name: evaluate(stream, terms[name]), raw=raw,
            input_text=input_text, input=stream.input,
        )  # fmt: skip


def _written(name: str, term: Term) -> str:
    text = sql(term)
    return text if text == identifier(name) else f"{text} AS {identifier(name)}"


def _source(term: Term, rows: Node) -> str | None:
    """Return the column that a term copies, or shifts: `coalesce(column, x)` does if the column is never NULL."""
    match term:
        case Column(name):
            return name
        case Add(of, Constant()) | Subtract(of, Constant()):
            return _source(of, rows)
        case Coalesce(Column(name), Constant()) if not rows.has_null(name):
            return name
    return None


@dataclass(frozen=True, eq=False)
class Negate(Linear):
    """The rows with negated weights."""

    @property
    def negates(self) -> bool:
        return True

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        (stream,) = streams
        diff = stream.program.vector()
        stream.program.add(expressions.SUBTRACT_FROM, size=stream.size, a=stream.diff, constant=0, result=diff)
        return Stream(stream.program, stream.size, stream.time, diff, stream.column)


@dataclass(frozen=True, eq=False)
class Concat(Node):
    """The sum of collections with the same columns."""

    parts: tuple[Node, ...]

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(each, columns) for each in self.parts]

    def determines(self, names: frozenset[str]) -> bool:
        kept = self.antijoined
        return kept is not None and is_unique(kept, names)

    @property
    def antijoined(self) -> Node | None:
        """The rows from which an antijoin subtracts those that have a partner; None if the sum is no antijoin."""
        if len(self.parts) != 2 or not isinstance(self.parts[1], Negate):
            return None
        return self.parts[0] if self.parts[1].rows.selects_from(self.parts[0]) else None

    def estimate(self, inputs: Sequence[float]) -> float:
        return sum(inputs)

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        """Move the parts to the rows of one of them, if these are owned by columns that all parts have.

        The last such part is chosen: in an antijoin it is the result of a join, whose rows have been moved already.
        """
        if len(set(inputs)) == 1 and inputs[0].kind != "scanned":
            return OperatorDistribution((None,) * len(inputs), inputs[0])
        names = tuple(columns[self])
        target = next((each for each in reversed(inputs) if self._accepts(each, names)), None)
        if target is None:
            own = to_owner(names, [self.schema[name] for name in names])
            return OperatorDistribution(tuple(own if each == WHOLE else None for each in inputs), ANYWHERE)
        exchange = Exchange("owner", target.by, target.low)
        return OperatorDistribution(tuple(None if each == target else exchange for each in inputs), target)

    def _accepts(self, distribution: Distribution, names: Iterable[str]) -> bool:
        """Return whether the rows can be moved to the owners of others, by columns `names` that both have."""
        if distribution.kind != "owned" or not set(distribution.by) <= set(names):
            return False
        return fits(distribution, [self.schema[name] for name in distribution.by])

    def is_open(self, placing: Placing) -> bool:
        return all(map(placing.is_free, self.parts))

    def preferred(self, keys: Keys) -> Iterable[tuple[Node, Keys]]:
        return [(each, keys) for each in self.parts]

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        return concat(emission.program, streams, emission.columns(self))


def filter_bits(stream: Stream, conditions: Sequence[Term]) -> VectorAddress:
    """Append the evaluation of conditions; return the cell of numbers, each bit of which stands for a condition."""
    program, result = stream.program, stream.program.vector()
    program.add(expressions.FILL, size=stream.size, value=0, result=result)
    for bit, condition in enumerate(conditions):
        narrowed = _narrowed(Selection(stream, NO_VECTOR, stream.size), condition)
        selected, size = narrowed.selected, narrowed.size
        program.add(expressions.SET_BIT, size=size, selected=selected, bit=bit, result=result)
    return result


def _narrowed(rows: Selection, condition: Term) -> Selection:
    """Append the narrowing of a selection: by all tests of stored columns, then by one conjunct after another."""
    program, stream = rows.stream.program, rows.stream
    terms = conjuncts(condition)
    tests = [_range_test(stream, *each) for each in column_ranges(terms)]
    others = list[Term]()
    for term in other_conditions(terms):
        test = _less_test(stream, term)
        if test is None:
            others.append(term)
        else:
            tests.append(test)
    if tests:
        out, out_size = program.vector(), program.cell()
        program.add(
            filters.FILTER_ROWS, size=rows.size, tests=program.table(tests), count=len(tests),
            selected=rows.selected, out=out, out_size=out_size,
        )  # fmt: skip
        rows = Selection(stream, out, out_size)
    for term in others:
        satisfied = evaluate(selected_rows(rows) if rows.selected else stream, term)
        out, out_size = program.vector(), program.cell()
        program.add(
            filters.FILTER_TRUE, size=rows.size, condition=satisfied,
            selected=rows.selected, out=out, out_size=out_size,
        )  # fmt: skip
        rows = Selection(stream, out, out_size)
    return rows


def _range_test(stream: Stream, column: str, low: int, high: int) -> BlockAddress:
    """Make the test whether a column's value lies in a range."""
    values, width = stream.stored(column)
    return stream.program.block(filters.RowTest, values=values, width=width, low=low, high=high)


def _less_test(stream: Stream, term: Term) -> BlockAddress | None:
    """Make the test of a comparison of two columns of an input that are as wide; return None for another term."""
    is_less = not isinstance(term, Not)
    match term:
        case Less(Column(left), Column(right)) | Not(Less(Column(left), Column(right))):
            if not {left, right} <= stream.raw.keys() or stream.raw[left][1] != stream.raw[right][1]:
                return None
            (values, width), (other, _) = stream.raw[left], stream.raw[right]
            inverted = 0 if is_less else -1
            return stream.program.block(filters.RowTest, values=values, width=width, other=other, inverted=inverted)
    return None


def selected_rows(rows: Selection) -> Stream:
    """Return the stream of the rows at a selection."""
    stream, selected = rows.stream, rows.selected
    narrowed = Stream(
        stream.program, rows.size, lambda: narrowed.take_times(stream, selected),
        lambda: narrowed.take_weights(stream, selected), lambda name: _take(stream, narrowed, selected, name),
    )  # fmt: skip
    narrowed.input, narrowed.chosen = stream.input, rows
    narrowed.input_text = lambda name: _selected_text(stream, narrowed, selected, name)
    return narrowed


def _take(stream: Stream, narrowed: Stream, selected: VectorAddress, name: str) -> VectorAddress:
    """Take a column at a selection. Only the selected texts are numbered."""
    text = _selected_text(stream, narrowed, selected, name)
    if text is not None:
        return numbers_of(stream.program, narrowed.size, text.cells(stream.program, narrowed.size))
    if name in stream.deferred and name not in stream.computed:
        return stream.deferred[name](narrowed, selected)
    cell, width = stream.stored(name)
    return narrowed.take(cell, selected, width)


def _selected_text(stream: Stream, narrowed: Stream, selected: VectorAddress, name: str) -> InputText | None:
    text = None if name in stream.computed else stream.input_text(name)
    if text is None:
        return None
    return replace(text, rows=narrowed.take(text.rows, selected) if text.rows else selected)


def concat(program: Program, streams: Sequence[Stream], names: Sequence[str]) -> Stream:
    """Append the merge of several streams in order of time."""
    inputs = [_merged(program, stream, names) for stream in streams]
    out, size = [program.vector() for _ in range(len(names) + 2)], program.cell()
    program.add(
        MERGE, streams=len(streams), inputs=program.table(inputs), columns=len(out), out_size=size,
        out=program.table(out),
    )  # fmt: skip
    columns = dict(zip(names, out[2:], strict=True))
    return Stream(program, size, out[0], out[1], columns.__getitem__, columns)


def _merged(program: Program, stream: Stream, names: Sequence[str]) -> BlockAddress:
    """Make the block of one of the merged streams."""
    columns = program.table([stream.time, stream.diff, *map(stream.column, names)])
    return program.block(MergedStream, size=stream.size, time=stream.time, columns=columns)


def subtracts(root: Node) -> bool:
    """Return whether a plan negates rows anywhere."""
    return any(each.negates for each in walk(root))


def is_multiset(root: Node) -> bool:
    """Return whether no row of a plan over multisets has a negative weight at the end of a time.

    Rows may be subtracted only as an antijoin does, from the collection that they are rows of.
    """
    nodes = list(walk(root))
    antijoins = {each.parts[1] for each in nodes if isinstance(each, Concat) and each.antijoined}
    return all(each in antijoins for each in nodes if isinstance(each, Negate))


def is_consolidated(root: Node) -> bool:
    """Return whether a result has one update per row and time. A projection that keeps every column preserves this."""
    if isinstance(root, Project):
        return set(root.copied.values()) >= set(root.rows.schema.names) and is_consolidated(root.rows)
    return root.consolidated


class MergedStream(Block):
    """One of the streams."""

    size: Cell
    time: Vector
    columns: Vectors
    """All columns, of which the first two are the times and the diffs."""
    position: int = 0
    """The number of its rows that are in the output."""


class MergeBlock(Operator):
    """The streams, and their merged stream."""

    streams: int
    """The number of streams."""
    inputs: Array
    """The address of the `MergedStream` of each."""
    columns: int
    out_size: Cell
    out: Vectors


@kernel
def merge(op: MergeBlock) -> int:
    """Merge the rows of the slice."""
    streams, inputs, columns, size = op.streams, op.inputs, op.columns, 0
    for index in range(streams):
        MergedStream(inputs[index]).position = 0
    while True:
        first, least = -1, FOREVER
        for index in range(streams):
            stream = MergedStream(inputs[index])
            at = stream.position
            if at < stream.size and stream.time[at] < least:
                first, least = index, stream.time[at]
        if first < 0:
            break
        stream = MergedStream(inputs[first])
        start = stream.position
        stop, rows, times = start + 1, stream.size, stream.time
        while stop < rows and times[stop] == least:
            stop += 1
        for column in range(columns):
            source, target = stream.columns[column][start:], op.out[column][size:]
            for at in range(stop - start):
                target[at] = source[at]
        size += stop - start
        stream.position = stop
    op.out_size = size
    return 0


def _idle(op: MergeBlock) -> tuple[int, ...]:
    sizes = [word for at in range(op.streams) for word in words_of(MergedStream(op.inputs[at]), "size")]
    return (*sizes, *words_of(op, "out_size"))


MERGE = step(merge, idle=_idle)
