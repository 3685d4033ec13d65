"""Terms over streams: each node of a term becomes a vector operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, assert_never

from deltamark.dataflow.builder.program import BlockAddress, VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.texts import (
    TextCells,
    accepted,
    match,
    numbers_of,
    precedes,
    store_bytes,
    substring,
    text_call,
    texts_of_numbers,
)
from deltamark.dataflow.kernels import expressions, moments, numbers
from deltamark.dataflow.kernels.core.steps import Step
from deltamark.dataflow.kernels.numbers import CheckedBlock, FromDoubleBlock
from deltamark.dataflow.plan.memo import kept
from deltamark.dataflow.plan.regular import automaton
from deltamark.dataflow.plan.term_sql import literal, sql
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
    ExactMoment,
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
    TextCall,
    ToDouble,
    When,
    double,
)
from deltamark.dataflow.types import DOUBLE, NULL
from deltamark.errors import DeltamarkError

FUNCTION_NUMBERS = {
    "+": numbers.PLUS, "-": numbers.MINUS, "*": numbers.TIMES, "/": numbers.DIVIDED, "%": numbers.MODULO,
    "round": numbers.ROUND, "round tens": numbers.ROUND_TENS, "floor": numbers.FLOOR, "ceil": numbers.CEIL,
    "trunc": numbers.TRUNC, "abs": numbers.ABS, "sqrt": numbers.SQRT, "float": numbers.SINGLE,
    "exp": numbers.EXP, "ln": numbers.LN, "log10": numbers.LOG10, "log2": numbers.LOG2, "**": numbers.POWER,
    "sin": numbers.SIN, "cos": numbers.COS, "tan": numbers.TAN, "asin": numbers.ASIN, "acos": numbers.ACOS,
    "atan": numbers.ATAN, "atan2": numbers.ATAN2,
}  # fmt: skip
"""The numbers that kernels give functions of doubles, and checked arithmetic."""


@dataclass(frozen=True)
class NumberTooWide:
    """The state of arithmetic that keeps no rows, and fails if a number needs more than 64 bits."""

    block: BlockAddress
    term: Checked

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        block = CheckedBlock(self.block)
        left, right = literal(self.term.left.type, block.error_a), literal(self.term.right.type, block.error_b)
        actual = f"{left} {self.term.sign} {right}, in {sql(self.term):.80}"
        return DeltamarkError("a number needs more than 64 bits", actual, "cast an operand to DOUBLE")


@dataclass(frozen=True)
class DoubleOutOfRange:
    """The state of a conversion that keeps no rows, and fails if a double is no number of 64 bits."""

    block: BlockAddress
    term: FromDouble

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        value = literal(DOUBLE, FromDoubleBlock(self.block).error)
        actual = f"{value}, in {sql(self.term):.80}"
        return DeltamarkError("a DOUBLE outside the range of a cast", actual, "leave out its row")


def evaluate(stream: Stream, term: Term) -> VectorAddress:
    """Append the computation of a term over a stream; return the cell of its values."""
    return VectorAddress(_Evaluator(stream).cell(term))


@kept
def _is_made(term: Term) -> bool:
    """Return whether texts are new ones, so that they have no numbers unless these are wanted."""
    match term:
        case TextCall() | Text():
            return term.type.kind == "text"
        case When(_, yes, no):
            return _is_made(yes) or _is_made(no)
        case Coalesce(value, other):
            return _is_made(value) or _is_made(other)
    return False


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
        self._cells: dict[Term, int] = {}
        self._texts: dict[Term, TextCells] = {}
        self._operands: dict[Term, int] = {}

    def texts(self, term: Term) -> TextCells:
        """Return the texts of a term. Only those that a column has numbered are read from the pool."""
        if term not in self._texts:
            self._texts[term] = self._read(term)
        return self._texts[term]

    def _read(self, term: Term) -> TextCells:  # noqa: PLR0911 (a case per operation)
        program, stream = self._program, self._stream
        match term:
            case Column(name) if name not in stream.computed and (text := stream.input_text(name)) is not None:
                return text.cells(program, stream.size)
            case Constant(word):
                return self._missing_text() if word == NULL else self.constant_text(str(word))
            case Text(code) if code.type.kind == "code":
                return self.words(code)
            case Text(short):
                return self._called("short", (short,))
            case TextCall(function, arguments):
                return self._called(function, arguments)
            case When(condition, yes, no):
                return self._choose_text(self.cell(condition), self.texts(yes), self.texts(no))
            case Coalesce(value, other):
                known = self.texts(value)
                return self._choose_text(self._is_missing(known), self.texts(other), known)
        return texts_of_numbers(program, stream.size, VectorAddress(self.cell(term)))

    def _called(self, function: str, arguments: Sequence[Term]) -> TextCells:
        texts = self._call(function, arguments)
        assert isinstance(texts, TextCells)
        return texts

    def _call(self, function: str, arguments: Sequence[Term]) -> TextCells | VectorAddress:
        """Append a function of texts and numbers."""
        cells = [self.texts(each) if each.type.kind == "text" else VectorAddress(self.cell(each)) for each in arguments]
        return text_call(self._program, self._stream.size, function, cells)

    def _missing_text(self) -> TextCells:
        texts = TextCells(self._program.vector(), self._program.vector())
        self._fill(0, texts.start)
        self._fill(-1, texts.length)
        return texts

    def _is_missing(self, texts: TextCells) -> int:
        result = self._program.vector()
        self._apply(expressions.EQUAL, texts.length, result, constant=-1)
        return result

    def _choose_text(self, condition: int, yes: TextCells, no: TextCells) -> TextCells:
        texts = TextCells(self._program.vector(), self._program.vector())
        for result, one, other in ((texts.start, yes.start, no.start), (texts.length, yes.length, no.length)):
            self._choose(condition, one, other, result)
        return texts

    def cell(self, term: Term) -> int:
        if term not in self._cells:
            self._cells[term] = self._append(term)
        return self._cells[term]

    def _append(self, term: Term) -> int:  # noqa: C901, PLR0911, PLR0912 (a case per operation)
        program, size = self._program, self._stream.size
        match term:
            case Column(name):
                return self._stream.column(name)
            case Constant(str()):
                return numbers_of(program, size, self.texts(term))
            case _ if _is_made(term):
                return numbers_of(program, size, self.texts(term))
            case TextCall("regexp_matches", (text, Constant(str(expression)))):
                return accepted(program, size, self.texts(text), automaton(expression))
            case TextCall(function, arguments):
                found = self._call(function, arguments)
                assert isinstance(found, int)
                return found
            case IsNull(made) if _is_made(made):
                return self._is_missing(self.texts(made))
            case Match(text, pieces):
                return match(program, size, self.texts(text), pieces)
            case Substring(text, start, length):
                return substring(program, size, self.texts(text), start, length)
            case Less(left, right) if left.type.kind == "text":
                return precedes(program, size, self.texts(left), self.texts(right))
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
            case When(condition, yes, no):
                self._choose(self.cell(condition), self.cell(yes), self.cell(no), result)
            case Moment():
                self._moment(term, result)
            case Checked() | ToDouble() | FromDouble() | DoubleArithmetic() | DoubleFunction():
                self._number(term, result)
            case Constant() | Passes() | Text() | ExactMoment():
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

    def _choose(self, condition: int, yes: int, no: int, result: int) -> None:
        self._program.add(
            expressions.CHOOSE, size=self._stream.size, condition=condition, yes=yes, no=no, result=result
        )

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
                    numbers.CHECKED_ARITHMETIC, size=size, function=FUNCTION_NUMBERS[sign], a=a, b=b, result=result
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
            case DoubleArithmetic() | DoubleFunction():
                self._compute(term, result, zero=0)

    def _operand(self, term: Term) -> int:
        """Return the cell of an operand of a function of doubles, whose zero may be negative."""
        if not isinstance(term, DoubleArithmetic | DoubleFunction):
            return self.cell(term)
        if term not in self._operands:
            self._operands[term] = self._program.vector()
            self._compute(term, self._operands[term], zero=numbers.NEGATIVE_ZERO)
        return self._operands[term]

    def _compute(self, term: DoubleArithmetic | DoubleFunction, result: int, *, zero: int) -> None:
        """Append a function of doubles."""
        match term:
            case DoubleArithmetic(left, right, sign):
                a, b, code = self._operand(left), self._operand(right), FUNCTION_NUMBERS[sign]
            case DoubleFunction(value, function, places):
                a = b = self._operand(value)
                if function == "round":
                    b = self.cell(double(10.0 ** abs(places)))
                code = FUNCTION_NUMBERS["round tens" if function == "round" and places < 0 else function]
        size = self._stream.size
        self._program.add(numbers.DOUBLES, size=size, function=code, zero=zero, a=a, b=b, result=result)

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
