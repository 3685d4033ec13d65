"""Terms over streams: each node of a term becomes a vector operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias, assert_never

from deltamark.dataflow.builder.numbers import DoubleOutOfRange, NumberTooWide, function_number
from deltamark.dataflow.builder.program import VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.texts import (
    TextCells,
    match,
    numbers_of,
    precedes,
    store_bytes,
    substring,
    texts_of_numbers,
)
from deltamark.dataflow.kernels import expressions, moments, numbers
from deltamark.dataflow.kernels.core.steps import Step
from deltamark.dataflow.plan.terms import (
    OF_SAMPLES,
    ROOTS,
    Add,
    And,
    Checked,
    Coalesce,
    Column,
    Constant,
    DoubleArithmetic,
    DoubleFunction,
    Equal,
    FromDouble,
    IsNull,
    Less,
    Lookup,
    Match,
    Member,
    Moment,
    Multiply,
    Not,
    Or,
    Passes,
    Quotient,
    Substring,
    Subtract,
    Table,
    Term,
    Text,
    ToDouble,
    When,
    double,
)
from deltamark.dataflow.types import NULL
from deltamark.errors import DeltamarkError


def evaluate(stream: Stream, term: Term) -> VectorAddress:
    """Append the computation of a term over a stream; return the cell of its values."""
    return VectorAddress(_Evaluator(stream).cell(term))


def _texts(stream: Stream, term: Term) -> TextCells:
    """Return the texts of a term. Texts that only the feed has are read there, without being numbered."""
    match term:
        case Column(name) if name not in stream.computed and (text := stream.input_text(name)) is not None:
            return text.cells(stream.program, stream.size)
        case Constant(str(word)):
            return _Evaluator(stream).constant_text(word)
        case Text(code):
            return _Evaluator(stream).words(code)
    return texts_of_numbers(stream.program, stream.size, evaluate(stream, term))


_Binary: TypeAlias = Add | Subtract | Multiply | Quotient | Equal | Less | And | Or | Coalesce
"""The terms that are computed by one function of two numbers."""


class _Evaluator:
    """Appends the operators of one term; equal nodes are computed once."""

    BINARY: ClassVar[dict[type[Term], Step]] = {
        Add: expressions.ADD, Subtract: expressions.SUBTRACT, Multiply: expressions.MULTIPLY, Equal: expressions.EQUAL,
        Less: expressions.LESS, And: expressions.AND, Or: expressions.OR, Coalesce: expressions.COALESCE,
        Quotient: expressions.QUOTIENT,
    }  # fmt: skip

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._program = stream.program
        self._cells: dict[int, int] = {}

    def cell(self, term: Term) -> int:
        if id(term) not in self._cells:
            self._cells[id(term)] = self._append(term)
        return self._cells[id(term)]

    def _append(self, term: Term) -> int:  # noqa: C901, PLR0911, PLR0912 (a case per operation)
        program, size = self._program, self._stream.size
        match term:
            case Column(name):
                return self._stream.column(name)
            case Constant(str(word)):
                return numbers_of(program, size, self.constant_text(word))
            case Text(code):
                return numbers_of(program, size, self.words(code))
            case Match(text, pieces):
                return match(program, size, _texts(self._stream, text), pieces)
            case Substring(text, start, length):
                return substring(program, size, _texts(self._stream, text), start, length)
            case Less(left, right) if left.type.kind == "text":
                return precedes(program, size, _texts(self._stream, left), _texts(self._stream, right))
        result = program.vector()
        match term:
            case Constant(int(value)):
                self._fill(value, result)
            case Add() | Subtract() | Multiply() | Quotient() | Equal() | Less() | And() | Or():
                self._binary(term, term.left, term.right, result)
            case Coalesce(value, other):
                self._binary(term, value, other, result)
            case Not(condition):
                self._apply(expressions.SUBTRACT_FROM, self.cell(condition), result, constant=1)
            case IsNull(value):
                self._apply(expressions.EQUAL, self.cell(value), result, constant=NULL)
            case Lookup(code, results):
                self._look_up(code, list(map(int, results)), 0, result)
            case Table(number, low, results):
                self._look_up(number, results, low, result)
            case Member():
                self._test_membership(term, result)
            case When():
                self._choose(term, result)
            case Moment():
                self._moment(term, result)
            case Checked() | ToDouble() | FromDouble() | DoubleArithmetic() | DoubleFunction():
                self._number(term, result)
            case Constant() | Passes():
                raise DeltamarkError("this engine cannot compute", term, "leave it out")
            case _:
                assert_never(term)
        return result

    def _fill(self, value: int, result: int) -> None:
        self._program.add(expressions.FILL, size=self._stream.size, value=value, result=result)

    def _test_membership(self, term: Member, result: int) -> None:
        self._program.add(
            expressions.MEMBER, size=self._stream.size, values=self.cell(term.value),
            members=self._program.table(term.members), count=len(term.members), result=result,
        )  # fmt: skip

    def _choose(self, term: When, result: int) -> None:
        condition, yes, no = map(self.cell, (term.condition, term.yes, term.no))
        self._program.add(
            expressions.CHOOSE, size=self._stream.size, condition=condition, yes=yes, no=no,
            result=result,
        )  # fmt: skip

    def _moment(self, term: Moment, result: int) -> None:
        program, count = self._program, len(term.numbers)
        program.add(
            moments.MOMENTS, size=self._stream.size, numbers=program.table(list(map(self.cell, term.numbers))),
            slice_numbers=program.words(count), comoments=count // moments.SUMS, less=int(term.function in OF_SAMPLES),
            power=10**term.scale, is_root=int(term.function in ROOTS), wide=program.words(2), result=result,
        )  # fmt: skip

    def _number(
        self, term: Checked | ToDouble | FromDouble | DoubleArithmetic | DoubleFunction, result: VectorAddress
    ) -> None:
        """Append arithmetic of doubles, a conversion, or arithmetic that may fail."""
        program, size = self._program, self._stream.size
        match term:
            case Checked(left, right, sign):
                a, b = map(self.cell, (left, right))
                block = program.add(
                    numbers.CHECKED_ARITHMETIC, size=size, function=function_number(sign), a=a, b=b, result=result
                )
                program.add_state(NumberTooWide(block, term))
            case ToDouble(number):
                power = 10**number.type.scale
                program.add(numbers.TO_DOUBLE, size=size, numbers=self.cell(number), power=power, result=result)
            case FromDouble(value, to_even, type_):
                block = program.add(
                    numbers.FROM_DOUBLE, size=size, doubles=self.cell(value), power=10**type_.scale,
                    to_even=int(to_even), low=type_.low, high=type_.high, result=result,
                )  # fmt: skip
                program.add_state(DoubleOutOfRange(block, term))
            case DoubleArithmetic(left, right, sign):
                a, b = map(self.cell, (left, right))
                program.add(numbers.DOUBLES, size=size, function=function_number(sign), a=a, b=b, result=result)
            case DoubleFunction(value, function, places):
                a = b = self.cell(value)
                if function == "round":
                    b = self.cell(double(10.0 ** abs(places)))
                code = function_number("round tens" if function == "round" and places < 0 else function)
                program.add(numbers.DOUBLES, size=size, function=code, a=a, b=b, result=result)

    def constant_text(self, word: str) -> TextCells:
        """Append a constant text."""
        texts = TextCells(self._program.vector(), self._program.vector())
        self._fill(store_bytes(self._program, word.encode()), texts.start)
        self._fill(len(word.encode()), texts.length)
        return texts

    def words(self, code: Term) -> TextCells:
        """Append the reading of the words of codes."""
        words = [word.encode() for word in code.type.words]
        texts = TextCells(self._program.vector(), self._program.vector())
        self._look_up(code, [store_bytes(self._program, word) for word in words], 0, texts.start)
        self._look_up(code, list(map(len, words)), 0, texts.length)
        return texts

    def _binary(self, term: _Binary, left: Term, right: Term, result: int) -> None:
        """Append a function of two numbers. A constant is one of its arguments; a commutative one takes it second."""
        code = self.BINARY[type(term)]
        if isinstance(left, Constant) and isinstance(term, Add | Multiply | Equal):
            left, right = right, left
        match left, right:
            case _, Constant(int(value)):
                self._apply(code, self.cell(left), result, constant=value)
            case Constant(int(value)), _ if isinstance(term, Subtract):
                self._apply(expressions.SUBTRACT_FROM, self.cell(right), result, constant=value)
            case _:
                self._apply(code, self.cell(left), result, b=self.cell(right))

    def _apply(self, step: Step, a: int, result: int, *, b: int = 0, constant: int = 0) -> None:
        """Append a function of a vector and another vector, or a constant."""
        self._program.add(step, size=self._stream.size, a=a, b=b, constant=constant, result=result)

    def _look_up(self, term: Term, table: Sequence[int], low: int, result: int) -> None:
        self._program.add(
            expressions.LOOKUP, size=self._stream.size, values=self.cell(term),
            table=self._program.table(table), low=low, result=result,
        )  # fmt: skip
