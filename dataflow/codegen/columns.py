"""A stream of updates between operators, slice by slice: cells for its size, times, diffs and columns.

Columns are made when somebody asks for them, once; terms are evaluated over them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

from deltamark.dataflow.codegen.memory_layout import UNBOUNDED_WORDS
from deltamark.dataflow.codegen.program import Part, Program, key_range
from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.hashing import interner as intern
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.parallel import key_partition as deal
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.operators.text import Fed, Places, matched, numbered, places_of_numbers, substring
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import NULL, Type
from deltamark.errors import DeltamarkError

MOST_LOOKED_UP = 1 << 14
"""Keys of a range that is unpacked by a table instead of by division, which is ten times slower."""

MOST_PACKED = 1 << 62
LEAST_IDS = 1024
"""Entries of a new interner."""
MOST_INTERNED = 1 << 28


@dataclass(frozen=True)
class Interner:
    """A table that numbers the rows of keys that do not pack: see kernels.core.interner."""

    block: int
    stored: tuple[int, ...]
    part: Part

    @classmethod
    def of(cls, program: Program, types: Sequence[Type]) -> Interner:
        with program.building(Part()):
            made = cls._made(program, len(types))
            for column, type_ in enumerate(types):
                if type_.kind == "text":
                    program.holds_texts(partial(_mark_interned, made.block, column))
            return made

    @classmethod
    def _made(cls, program: Program, columns: int) -> Interner:
        stored = tuple(program.cell(program.memory.reserve(UNBOUNDED_WORDS)) for _ in range(columns))
        addresses = program.table([int(view(cell, 1)[0]) for cell in stored])
        free, count, since, waiting = (program.memory.reserve(UNBOUNDED_WORDS) for _ in range(4))
        block = program.block(
            intern.InternerBlock, columns=columns, table=program.memory.reserve(LEAST_IDS), mask=LEAST_IDS - 1,
            free=free,
            stored=addresses, count=count, empty_since=since, waiting=waiting, frontier=program.frontier,
        )  # fmt: skip
        return cls(block, stored, program.part)

    def ids(self, stream: Stream, names: Sequence[str]) -> int:
        """Number the rows of a stream; return the cell of the ids."""
        program, result = stream.program, stream.program.vector()
        program.part.uses.add(self.part)
        inputs = program.table([stream.column(name) for name in names])
        leads = self not in program.states.values()
        program.add(
            Opcode.INTERN, intern.InternBlock, interner=self.block, size=stream.size, time=stream.time,
            diff=stream.diff,
            inputs=inputs, result=result, leads=leads,
        )  # fmt: skip
        program.keep(self)
        return result

    def keep_for(self, program: Program, state: int, words: int) -> None:
        """Give numbers back in sweeps alone, when the records of an aggregate are zero: sums may outlive their rows."""
        intern.InternerBlock(self.block).keeps_ids = 1
        program.swept(self, lambda: garbage.free_ids(intern.InternerBlock(self.block), Array(state), words))

    def used(self) -> int:
        """Count the numbers that were not given back."""
        return intern.InternerBlock(self.block).used

    def rows(self) -> int:
        return intern.InternerBlock(self.block).live

    def problem(self) -> DeltamarkError:
        raise AssertionError("an interner does not fail")


def _mark_interned(shared: int, column: int, pool: int) -> None:
    garbage.mark_interned(TextPool(pool), intern.InternerBlock(shared), column)


@dataclass(frozen=True)
class Deal:
    """How the keys in a column, all of which one worker owns, are numbered: see kernels.parallel.key_partition."""

    column: str
    low: int
    workers: int
    worker: int

    def compact(self, stream: Stream) -> int:
        """Return the cell of the places of a stream's keys."""
        result, inverse = stream.program.vector(), deal.reciprocal(self.workers)
        cell = stream.column(self.column)
        stream.program.add(
            Opcode.COMPACT,
            deal.CompactBlock,
            size=stream.size,
            keys=cell,
            low=self.low,
            reciprocal=inverse,
            result=result,
        )
        return result

    def expand(self, stream: Stream, cell: int) -> int:
        """Return the cell of the keys at places that a stream has in a cell."""
        result = stream.program.vector()
        stream.program.add(
            Opcode.EXPAND, deal.ExpandBlock, size=stream.size, places=cell, low=self.low, workers=self.workers,
            worker=self.worker, result=result,
        )  # fmt: skip
        return result

    def key(self, place: int) -> int:
        worker = int(view(self.worker, 1)[0])
        return int(deal.key_at(place, self.low, self.workers, worker))

    def largest(self, high: int) -> int:
        """Return the largest place of a key up to `high`."""
        return ((high - self.low >> deal.BLOCK_BITS) // self.workers + 1 << deal.BLOCK_BITS) - 1


@dataclass(frozen=True)
class Key:
    """One number for the key columns of each row: where it lies, and its bounds."""

    cell: int
    low: int
    high: int
    form: Literal["single", "packed", "interned"]
    interner: Interner | None = None

    @property
    def given(self) -> int:
        """The word that says how many ids an interner has given, if one does."""
        return 0 if self.interner is None else self.interner.block + intern.InternerBlock.fields["next_id"].offset

    deal: Deal | None = None
    texts: tuple[Digit, ...] = ()
    """The digits of the number that are texts."""


@dataclass
class Stream:
    program: Program
    size: int
    time: int
    diff: int
    make: Callable[[str], int]
    """Append what makes a column, and return its cell."""
    made: dict[str, int] = field(default_factory=dict)
    raw: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Columns of an input as they are stored: cell and width."""
    deal: Deal | None = None
    """How its rows are dealt to the workers, if it is in blocks of keys."""
    fed: Callable[[str], Fed | None] = lambda _: None
    """A column of text as the feed has it, if it does."""

    def __post_init__(self) -> None:
        self.part = self.program.part
        """What its columns belong to, whoever asks for them."""

    def stored(self, name: str) -> tuple[int, int]:
        """Return the cell and width of a column, as it is stored where it is an input's."""
        return self.raw[name] if name in self.raw else (self.column(name), 8)

    def column(self, name: str) -> int:
        """Return the cell of a column, a vector of int64."""
        with self.program.building(self.part):
            if name not in self.made:
                self.made[name] = self.make(name)
        return self.made[name]

    def places(self, term: Term) -> Places:
        """Return where the texts of a term lie; those that only the feed has are not numbered for it."""
        name = term.value
        fed = self.fed(name) if term.op == "column" and name not in self.made else None
        if fed is not None:
            return fed.places(self.program, self.size)
        return places_of_numbers(self.program, self.size, self.evaluate(term))

    def numbered(self, fed: Fed) -> int:
        """Number a column of text; return its cell."""
        return numbered(self.program, self.size, fed.places(self.program, self.size))

    def take(self, source: int, selection: int, width: int = 8) -> int:
        """Return the cell of a source's values at a selection (0: all) as large as this stream."""
        result = self.program.vector()
        self.program.add(
            Opcode.TAKE,
            expressions.TakeBlock,
            size=self.size,
            source=source,
            width=width,
            selected=selection,
            result=result,
        )
        return result

    def evaluate(self, term: Term) -> int:
        """Append what computes a term; return the cell of its values."""
        if term.op == "column":
            return self.column(term.value)
        return Evaluator(self).cell(term)

    def key(self, names: Sequence[str], types: Sequence[Type], interner: Interner | None = None) -> Key:
        """Make one number of the key columns: the only one itself, a packed one, or that of an interner."""
        if self.deal is not None and tuple(names) == (self.deal.column,):
            largest = self.deal.largest(types[0].high)
            return Key(self.deal.compact(self), 0, largest, "single", deal=self.deal)
        if len(names) == 1 and not types[0].nullable:
            only: tuple[Digit, ...] = (ONLY_DIGIT,) if types[0].kind == "text" else ()
            return Key(self.column(names[0]), types[0].low, types[0].high, "single", texts=only)
        size = math.prod(radix for _, radix in key_range(types))
        if size > MOST_PACKED:
            interner = interner or Interner.of(self.program, types)
            return Key(interner.ids(self, names), 0, MOST_INTERNED, "interned", interner)
        cell = self._fill(0)
        for name, (low, radix) in zip(names, key_range(types), strict=True):
            result = self.program.vector()
            self.program.add(
                Opcode.PACK, expressions.PackBlock, size=self.size, number=cell, value=self.column(name), low=low,
                radix=radix,
                result=result,
            )  # fmt: skip
            cell = result
        texts = tuple(digit for digit, type_ in zip(_digits(types), types, strict=True) if type_.kind == "text")
        return Key(cell, 0, size - 1, "packed", texts=texts)

    def _fill(self, value: int) -> int:
        result = self.program.vector()
        self.program.add(Opcode.FILL, expressions.FillBlock, size=self.size, value=value, result=result)
        return result


def unpacked(
    stream: Stream, cell: int, key: Key, names: Sequence[str], types: Sequence[Type]
) -> Mapping[str, Callable[[], int]]:
    """Return how to make each key column again from a stream's cell of such keys."""
    if key.deal is not None:
        return {names[0]: partial(key.deal.expand, stream, cell)}
    if key.form == "single":
        return {names[0]: lambda: cell}
    if key.interner is not None:
        stored = zip(names, key.interner.stored, strict=True)
        return {name: partial(stream.take, values, cell) for name, values in stored}
    size = math.prod(radix for _, radix in key_range(types))
    make = _lookup if size <= MOST_LOOKED_UP else _divide
    return {name: partial(make, stream, cell, digit, size) for name, digit in zip(names, _digits(types), strict=True)}


@dataclass(frozen=True)
class Digit:
    """One column of a packed key."""

    divisor: int
    radix: int
    low: int
    nullable: bool

    def of(self, key: int) -> int:
        digit = key // self.divisor % self.radix
        return NULL if self.nullable and digit == 0 else digit + self.low


ONLY_DIGIT = Digit(1, 0, 0, nullable=False)
"""Of a key that is one column as it is."""


def _digits(types: Sequence[Type]) -> list[Digit]:
    """Say which digit of a packed key each column is."""
    found, divisor = list[Digit](), 1
    for type_, (low, radix) in reversed(list(zip(types, key_range(types), strict=True))):
        found.append(Digit(divisor, radix, low, type_.nullable))
        divisor *= radix
    return found[::-1]


def _lookup(stream: Stream, key: int, digit: Digit, keys: int) -> int:
    result, table = stream.program.vector(), stream.program.table([digit.of(each) for each in range(keys)])
    stream.program.add(
        Opcode.LOOKUP, expressions.LookupBlock, size=stream.size, values=key, table=table, low=0, result=result
    )
    return result


def _divide(stream: Stream, key: int, digit: Digit, _keys: int) -> int:
    result = stream.program.vector()
    stream.program.add(
        Opcode.UNPACK, expressions.UnpackBlock, size=stream.size, number=key, divisor=digit.divisor, radix=digit.radix,
        low=digit.low, nullable=digit.nullable, result=result,
    )  # fmt: skip
    return result


class Evaluator:
    """Appends the vector operators of a term over a stream."""

    BINARY: ClassVar[dict[str, int]] = {
        "add": Opcode.ADD, "subtract": Opcode.SUBTRACT, "multiply": Opcode.MULTIPLY, "equal": Opcode.EQUAL,
        "less": Opcode.LESS,
        "and": Opcode.AND, "or": Opcode.OR, "coalesce": Opcode.COALESCE,
    }  # fmt: skip
    COMMUTES = ("add", "multiply", "equal")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._program = stream.program
        self._cells: dict[int, int] = {}

    def cell(self, term: Term) -> int:
        if term.op == "column":
            return self._stream.column(term.value)
        if id(term) not in self._cells:
            self._cells[id(term)] = self._make(term)
        return self._cells[id(term)]

    def _make(self, term: Term) -> int:
        program, size, result = self._program, self._stream.size, self._program.vector()
        match term.op:
            case "literal":
                program.add(Opcode.FILL, expressions.FillBlock, size=size, value=term.value, result=result)
            case "not":
                self._apply(Opcode.NEGATION, self.cell(term.args[0]), result, constant=1)
            case "is_null":
                self._apply(Opcode.EQUAL, self.cell(term.args[0]), result, constant=NULL)
            case "lookup":
                self._look_up(term.args[0], [int(value) for value in term.value], 0, result)
            case "table":
                low, values = term.value
                self._look_up(term.args[0], values, low, result)
            case "member":
                program.add(
                    Opcode.MEMBER, expressions.MemberBlock, size=size, values=self.cell(term.args[0]),
                    members=program.table(term.value), count=len(term.value), result=result,
                )  # fmt: skip
            case "when":
                test, yes, no = map(self.cell, term.args)
                program.add(
                    Opcode.CHOOSE, expressions.ChooseBlock, size=size, condition=test, yes=yes, no=no, result=result
                )
            case "match" | "substring":
                return self._of_text(term)
            case op if op in self.BINARY:
                self._binary(term, result)
            case _:
                raise DeltamarkError("this engine cannot compute", term, "leave it out")
        return result

    def _of_text(self, term: Term) -> int:
        places, size = self._stream.places(term.args[0]), self._stream.size
        if term.op == "match":
            return matched(self._program, size, places, term.value)
        return substring(self._program, size, places, *term.value)

    def _binary(self, term: Term, result: int) -> None:
        left, right = term.args
        if left.op == "literal" and term.op in self.COMMUTES:
            left, right = right, left
        if right.op == "literal":
            self._apply(self.BINARY[term.op], self.cell(left), result, constant=right.value)
        elif left.op == "literal" and term.op == "subtract":
            self._apply(Opcode.NEGATION, self.cell(right), result, constant=left.value)
        else:
            self._apply(self.BINARY[term.op], self.cell(left), result, b=self.cell(right))

    def _apply(self, code: int, a: int, result: int, *, b: int = 0, constant: int = 0) -> None:
        """Append a function of a vector and another one, or a constant."""
        self._program.add(
            code, expressions.BinaryBlock, size=self._stream.size, a=a, b=b, constant=constant, result=result
        )

    def _look_up(self, term: Term, table: Sequence[int], low: int, result: int) -> None:
        self._program.add(
            Opcode.LOOKUP, expressions.LookupBlock, size=self._stream.size, values=self.cell(term),
            table=self._program.table(table), low=low, result=result,
        )  # fmt: skip
