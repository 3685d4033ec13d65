"""Aggregate: sums of each group, whose changes are emitted when a time ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import ClassVar, Literal, Protocol

from deltamark.dataflow.builder.keys import Key, key_columns, key_ids, key_of, key_values
from deltamark.dataflow.builder.program import BlockAddress, Program, VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.terms import evaluate
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, view
from deltamark.dataflow.kernels.core.steps import Step
from deltamark.dataflow.kernels.groups.aggregate import AGGREGATE, SUM, AggregateBlock, Group, group_words
from deltamark.dataflow.kernels.groups.double_moments import (
    CORRELATION,
    OF_SAMPLE,
    OF_TWO,
    ROOT,
    SCRATCH_WORDS,
    moment_words,
)
from deltamark.dataflow.kernels.groups.double_sums import SUM_WORDS
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.parallel.prefix_aggregate import PREFIX_AGGREGATE
from deltamark.dataflow.operators.by_key import Grouped
from deltamark.dataflow.operators.distribution import SLICED, Columns, Distribution, OperatorDistribution
from deltamark.dataflow.operators.errors import described, negative_multiplicity
from deltamark.dataflow.operators.input import Input, row_count
from deltamark.dataflow.operators.interning import PlanValue
from deltamark.dataflow.operators.linear import Filter, Negate, Project
from deltamark.dataflow.operators.node import Emission, JoinReads, Keys, Placing, Requirement
from deltamark.dataflow.plan.term_sql import by_columns, identifier, literal, sql
from deltamark.dataflow.plan.terms import OF_SAMPLES, ROOTS, ExactMoment, Term
from deltamark.dataflow.types import LARGEST, Type, key_count
from deltamark.errors import DeltamarkError

MAX_REPLICATED_GROUPS = 4096
"""The most groups of an aggregate whose state every worker has a copy of; not measured."""


@dataclass(frozen=True)
class Sum(PlanValue):
    """One aggregated column: the sum of a term over a group, or (without a term) the number of its rows.

    Instead of a sum, an `ExactMoment` is computed of its terms.
    """

    name: str
    kind: Literal["sum", "count"]
    term: Term | None = None

    def __str__(self) -> str:
        value = "count(*)" if self.term is None else f"sum({sql(self.term)})"
        if isinstance(self.term, ExactMoment):
            value = sql(self.term)
        return f"{value} AS {identifier(self.name)}"

    @property
    def values(self) -> tuple[Term, ...]:
        """The terms that are computed for each row."""
        if self.term is None:
            return ()
        return self.term.args if isinstance(self.term, ExactMoment) else (self.term,)

    def of_values(self, columns: Mapping[Term, Term]) -> Sum:
        """Return the sum of columns that have the values. columns: by the terms that are computed for each row."""
        if self.term is None:
            return self
        is_moment = isinstance(self.term, ExactMoment)
        term = self.term.with_args(tuple(columns[each] for each in self.values)) if is_moment else columns[self.term]
        return replace(self, term=term)


@dataclass(frozen=True, eq=False)
class Aggregate(Grouped):
    """Sums per group. A group exists while its number of rows is not zero."""

    sums: tuple[Sum, ...]

    consolidated: ClassVar[bool] = True

    @property
    def terms(self) -> list[Term]:
        """The terms that are computed for each row, each once."""
        return list(dict.fromkeys(term for each in self.sums for term in each.values))

    def description(self, required: Collection[str]) -> str:
        return ": ".join(filter(None, [by_columns(self.keys), ", ".join(map(str, self.sums))]))

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, [*self.keys, *(name for term in self.terms for name in sorted(term.columns))])]

    def determines(self, names: frozenset[str]) -> bool:
        return set(self.keys) <= names

    @property
    def sum_columns(self) -> frozenset[str]:
        return frozenset(each.name for each in self.sums)

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        """Replicate an aggregate with few groups over rows in order: its workers exchange sums instead of rows."""
        if inputs[0].in_order and self._can_be_scanned:
            return OperatorDistribution((None,), Distribution("scanned", aggregate=self.digest.hex()))
        return super().distributed(inputs, columns)

    @property
    def _can_be_scanned(self) -> bool:
        """Whether workers may exchange sums: there are few groups, and no sums of doubles, which are long."""
        if any(self.schema[each.name].kind == "double" for each in self.sums):
            return False
        return key_count(self.schema[name] for name in self.keys) <= MAX_REPLICATED_GROUPS

    def wishes(self, placing: Placing) -> list[Distribution]:
        below = self.rows
        while isinstance(below, Filter | Project | Negate) and placing.readers(below) == 1:
            below = below.rows
        if self._can_be_scanned and isinstance(below, Input):
            return [SLICED]
        return super().wishes(placing)

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        append: AppendOperator = emission.program.add
        if emission.distribution(self).distribution.kind == "scanned":
            append = partial(_add_prefix_aggregate, emission.program)
            emission.remark("each worker sums its slices and sends sums instead of rows")
        return _aggregate(streams[0], self, append)


class AppendOperator(Protocol):
    """Appends an operator, such as `Program.add` does."""

    def __call__(self, step: Step, **fields: int) -> BlockAddress: ...


@dataclass(frozen=True)
class Groups:
    """The state of an aggregate: the sums of each group, and the columns of its keys."""

    program: Program
    block: AggregateBlock
    names: Keys
    types: tuple[Type, ...]
    key: Key
    sums: Sequence[Type]
    """The types of the sums."""

    def rows(self) -> int:
        """Count the groups that have rows."""
        return self.block.live

    def problem(self) -> DeltamarkError:
        """Return the error that has made the kernel fail."""
        number = int(hash_map.key_of(self.block.keys, self.block.error_group))
        row, time = key_values(self.key, number, self.names, self.types), self.block.open_time
        found = _sum_out_of_bounds(self.block)
        if found is None:
            return negative_multiplicity(self.program, row, time)
        actual, (index, total) = described(self.program, row, time, unnamed="the only group"), found
        if abs(total) > LARGEST:
            cause, remedy = "a sum needs more than 64 bits", "narrow the bounds of what is summed"
            return DeltamarkError(cause, actual, remedy, time=time)
        remedy = "retract only what was inserted before, and keep to the declared number of rows"
        actual = f"{literal(self.sums[index], total)} for {actual}"
        return DeltamarkError("a sum is out of bounds", actual, remedy, time=time)


def _sum_out_of_bounds(block: AggregateBlock) -> tuple[int, int] | None:
    """Return the number of the sum that has made an aggregate fail, and the sum; None if a count of rows has."""
    sums, values = block.sums, view(block.values.address, block.sums)
    group = Group(block.state[group_words(sums, block.double_words) * block.error_group :].address)
    numbers, bounds = view(group.numbers.address, 2 * sums + 2), view(block.bounds.address, 2 * sums)
    if numbers[1] < 0:
        return None
    for index in range(sums):
        at = 2 * index + 2 if values[index] else 0
        total = (int(numbers[at + 1]) << 64) + (int(numbers[at]) & 2**64 - 1)
        if not bounds[2 * index] <= total <= bounds[2 * index + 1]:
            return index, total
    return None


@dataclass(frozen=True)
class _Summed:
    """The vectors of a sum, none for a count, and its function, which is that of a moment or SUM."""

    cells: tuple[VectorAddress, ...]
    function: int = SUM

    @classmethod
    def of(cls, stream: Stream, column: Sum) -> _Summed:
        """Compute the vectors of a sum."""
        cells = tuple(evaluate(stream, term) for term in column.values)
        return cls(cells, moment_function(column.term)) if isinstance(column.term, ExactMoment) else cls(cells)

    @property
    def state_words(self) -> int:
        """The words of the exact state of a sum or a moment of doubles."""
        return SUM_WORDS if self.function == SUM else moment_words(self.function)


def moment_function(term: ExactMoment) -> int:
    """Return the bits by which the kernel knows a moment."""
    name = term.function
    bits = OF_SAMPLE * (name in OF_SAMPLES) + ROOT * (name in ROOTS) + CORRELATION * (name == "corr")
    return bits + OF_TWO * (len(term.numbers) > 1)


def _aggregate(stream: Stream, node: Aggregate, append: AppendOperator) -> Stream:
    program, unset = stream.program, stream.program.memory.reserve_unset
    names, types = node.keys, tuple(node.schema[name] for name in node.keys)
    summed = {each.name: _Summed.of(stream, each) for each in node.sums}
    sums = {each: name for name, each in summed.items()}  # sums of one vector are computed once
    key = key_of(stream, names, types)
    bounds = [node.schema[name] for name in sums.values()]
    doubles = [at for at, type_ in enumerate(bounds) if type_.kind == "double"]
    of_doubles = [list(sums)[at] for at in doubles]
    ends = list(accumulate(each.state_words for each in of_doubles))
    words = int(group_words(len(sums), sum(ends[-1:])))
    keys = key_ids(program, key, row_count(node), stream.size, state_words=words)
    size, time, diff, out_key = program.cell(), *(program.vector() for _ in range(3))
    out = {each: program.vector() for each in sums}
    columns = {name: out[each] for name, each in summed.items()}
    state = keys.reserve(program.memory, words)
    block = append(
        AGGREGATE, size=stream.size, time=stream.time, diff=stream.diff, key=key.cell,
        keys=keys.block, frontier=program.frontier, sums=len(sums), state=state,
        values=program.table([each.cells[0] if each.cells else 0 for each in sums]),
        saved=unset(UNBOUNDED_WORDS), touched=unset(UNBOUNDED_WORDS), out_size=size, out_time=time, out_diff=diff,
        out_key=out_key, out=program.table(list(out.values())),
        bounds=program.table([bound for type_ in bounds for bound in (type_.low, type_.high)]),
        slice_values=program.words(max(len(sums), 1)), slice_out=program.words(max(len(sums), 1)),
        doubles=len(doubles), double_words=sum(ends[-1:]), slice_doubles=program.words(2 * len(doubles) + 1),
        double_sums=program.table([
            word for place, each, end in zip(doubles, of_doubles, ends, strict=True)
            for word in (place, end - each.state_words, each.function)
        ]),
        others=program.table([each.cells[1] if len(each.cells) > 1 else 0 for each in of_doubles]),
        scratch=program.words(SCRATCH_WORDS if any(each.function != SUM for each in of_doubles) else 0),
    )  # fmt: skip
    program.add_state(Groups(program, AggregateBlock(block), tuple(names), types, key, bounds))
    if key.interner is not None:
        key.interner.free_in_sweeps(program, state, words)
    return with_keys(Stream(program, size, time, diff, columns.__getitem__, columns), out_key, key, names, types)


def _add_prefix_aggregate(program: Program, step: Step, **fields: int) -> BlockAddress:
    """Append a prefix aggregate over an aggregate, which is made of `fields`; return the aggregate's block."""
    until = program.cell()
    block = program.block(step.block, **fields | {"frontier": until})
    program.add_meeting(
        PREFIX_AGGREGATE, aggregate=block, frontier=program.frontier, until=until,
        places=program.memory.reserve(UNBOUNDED_WORDS),
    )  # fmt: skip
    return block


def with_keys(stream: Stream, cell: VectorAddress, key: Key, names: Sequence[str], types: Sequence[Type]) -> Stream:
    """Let a stream compute its key columns from a cell of keys."""
    columns = key_columns(stream, cell, key, names, types) if names else {}
    stream.compute = lambda name: columns[name]()

    def deferred(name: str) -> Callable[[Stream, VectorAddress], VectorAddress]:
        return lambda rows, selected: key_columns(rows, rows.take(cell, selected), key, names, types)[name]()

    stream.deferred = {name: deferred(name) for name in names}
    return stream
