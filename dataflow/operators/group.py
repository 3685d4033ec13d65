"""Aggregate and threshold: state by group, looked at when a time ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deltamark.dataflow.codegen.columns import Key, Stream, unpacked
from deltamark.dataflow.codegen.program import LOOSE, Program, key_range
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.core import hash_map
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups import aggregate as sums_kernel
from deltamark.dataflow.kernels.groups import threshold as threshold_kernel
from deltamark.dataflow.operators.arrangement import negative, wide_weight
from deltamark.dataflow.plan.nodes import Aggregate, Threshold
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import NULL, Type
from deltamark.errors import DeltamarkError


@dataclass(frozen=True)
class Groups:
    """The block of an aggregate or a threshold, and how its keys are to be read."""

    block: int
    names: tuple[str, ...]
    types: tuple[Type, ...]
    key: Key
    live: int
    error_key: int
    now: int
    keys: int

    def rows(self) -> int:
        return self._word(self.live)

    def problem(self) -> DeltamarkError:
        if self._word(0) == vm.THRESHOLD and self._word(threshold_kernel.OVERFLOW) < 0:
            return wide_weight()
        row = self.row(self._word(self.error_key))
        time = self._word(self.now)
        if self._overflowed():
            actual = f"{', '.join(f'{name}={value}' for name, value in row.items()) or 'the only group'} at time {time}"
            return DeltamarkError("a sum needs more than 64 bits", actual, "narrow the bounds of what is summed")
        return negative(row, time)

    def row(self, key_id: int) -> dict[str, int]:
        key = int(hash_map.key_of(self._word(self.keys), key_id))
        return row_of(self.key, self.names, self.types, key)

    def _word(self, at: int) -> int:
        return int(view(self.block + 8 * at, 1)[0])

    def _overflowed(self) -> bool:
        if self._word(0) != vm.AGGREGATE:
            return False
        state, key_id, words = (
            self._word(sums_kernel.STATE),
            self._word(self.error_key),
            2 * self._word(sums_kernel.SUMS) + 4,
        )
        return int(view(state + 8 * words * key_id, 2)[1]) >= 0


def row_of(how: Key, names: Sequence[str], types: Sequence[Type], key: int) -> dict[str, int]:
    """Read the columns of a key."""
    if how.form == "single":
        return {names[0]: key if how.deal is None else how.deal.key(key)}
    if how.interner is not None:
        stored = zip(names, how.interner.stored, strict=True)
        return {name: int(view(int(view(cell, 1)[0]) + 8 * key, 1)[0]) for name, cell in stored}
    row: dict[str, int] = {}
    for name, type_, (low, radix) in reversed(list(zip(names, types, key_range(types), strict=True))):
        key, digit = divmod(key, radix)
        row[name] = NULL if type_.nullable and digit == 0 else digit + low
    return dict(reversed(row.items()))


Append = Callable[..., int]
"""Appends an operator to a program, given its opcode and fields, and returns its block."""


def aggregate(stream: Stream, node: Aggregate, rows: int, append: Append = Program.op) -> Stream:
    """Keep the sums of each group, and hand out what changed when a time ends."""
    program = stream.program
    names, sums = node.keys, node.sums
    types = tuple(node.schema[name] for name in names)
    cells = [_values(stream, each.term) for each in sums]
    key = stream.key(names, types)
    keys = program.keys(key, rows, stream.size)
    size, time, diff, out_key = program.cell(), *(program.vector() for _ in range(3))
    made = {each.name: program.vector() for each in sums}
    out = program.table([cell for each in made.values() for cell in (each, 0)])
    words = 2 * len(sums) + 4
    state, saved = program.memory.reserve(keys.capacity * words), program.memory.reserve(LOOSE)
    touched, resolved = program.memory.reserve(LOOSE), program.words(max(3 * len(sums), 1))
    block = append(
        program, vm.AGGREGATE, stream.size, stream.time, stream.diff, key.cell, keys.block, program.frontier, len(sums),
        program.table(cells), state, saved, touched, 0, 0, resolved, size, time, diff, out_key, out, 0, 0,
    )  # fmt: skip
    program.keep(_groups(sums_kernel, block, names, types, key))
    if key.interner is not None:
        key.interner.keep_for(program, state, words)
    return _grouped(Stream(program, size, time, diff, made.__getitem__, made), out_key, key, names, types)


def _values(stream: Stream, term: Term | None) -> int:
    return 0 if term is None else stream.evaluate(term)


def threshold(stream: Stream, node: Threshold, rows: int) -> Stream:
    """Keep the multiplicity of each row, and hand out the crossings of a limit when a time ends."""
    program, names = stream.program, node.schema.names
    types = tuple(node.schema[name] for name in names)
    key = stream.key(names, types)
    keys = program.keys(key, rows, stream.size)
    size, time, diff, out_key = program.cell(), *(program.vector() for _ in range(3))
    counts = program.memory.reserve(2 * keys.capacity)
    saved, touched = program.memory.reserve(LOOSE), program.memory.reserve(LOOSE)
    block = program.op(
        vm.THRESHOLD, stream.size, stream.time, stream.diff, key.cell, keys.block, program.frontier, node.least,
        counts, saved, touched, 0, 0, size, time, diff, out_key, 0, 0, 0,
    )  # fmt: skip
    program.keep(_groups(threshold_kernel, block, names, types, key))
    return _grouped(Stream(program, size, time, diff, lambda _: 0), out_key, key, names, types)


def _groups(kernel: object, block: int, names: Sequence[str], types: tuple[Type, ...], key: Key) -> Groups:
    fields = (getattr(kernel, name) for name in ("LIVE", "ERROR_KEY", "NOW", "KEYS"))
    return Groups(block, tuple(names), types, key, *fields)


def _grouped(stream: Stream, cell: int, key: Key, names: Sequence[str], types: Sequence[Type]) -> Stream:
    """Let a stream make its key columns."""
    makers: Mapping[str, object] = unpacked(stream, cell, key, names, types) if names else {}
    stream.make = lambda name: makers[name]()  # type: ignore[operator]
    return stream
