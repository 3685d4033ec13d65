"""Terms over streams: each node of a term becomes a vector operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

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
from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.core.steps import Step
from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import NULL
from deltamark.errors import DeltamarkError


def evaluate(stream: Stream, term: Term) -> int:
    """Append the computation of a term over a stream; return the cell of its values."""
    return _Evaluator(stream).cell(term)


def _texts(stream: Stream, term: Term) -> TextCells:
    """Return the texts of a term. Texts that only the feed has are read there, without being numbered."""
    name = term.value
    text = stream.input_text(name) if term.op == "column" and name not in stream.computed else None
    if text is not None:
        return text.cells(stream.program, stream.size)
    if _has_words(term):
        return _Evaluator(stream).words(term)
    return texts_of_numbers(stream.program, stream.size, evaluate(stream, term))


def _has_words(term: Term) -> bool:
    """Return whether a term is a constant text, or the word of a code."""
    return term.op == "text" or (term.op == "literal" and isinstance(term.value, str))


class _Evaluator:
    """Appends the operators of one term; equal nodes are computed once."""

    BINARY: ClassVar[dict[str, Step]] = {
        "add": expressions.ADD, "subtract": expressions.SUBTRACT, "multiply": expressions.MULTIPLY,
        "quotient": expressions.QUOTIENT, "equal": expressions.EQUAL, "less": expressions.LESS,
        "and": expressions.AND, "or": expressions.OR, "coalesce": expressions.COALESCE,
    }  # fmt: skip
    COMMUTATIVE = ("add", "multiply", "equal")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._program = stream.program
        self._cells: dict[int, int] = {}

    def cell(self, term: Term) -> int:
        if term.op == "column":
            return self._stream.column(term.value)
        if id(term) not in self._cells:
            self._cells[id(term)] = self._append(term)
        return self._cells[id(term)]

    def _append(self, term: Term) -> int:
        if term.op in ("match", "substring") or (term.op == "less" and term.args[0].type.kind == "text"):
            return self._text_function(term)
        if _has_words(term):
            return numbers_of(self._program, self._stream.size, self.words(term))
        result = self._program.vector()
        if term.op in self.BINARY:
            self._binary(term, result)
            return result
        match term.op:
            case "literal":
                self._fill(term.value, result)
            case "not":
                self._apply(expressions.SUBTRACT_FROM, self.cell(term.args[0]), result, constant=1)
            case "is_null":
                self._apply(expressions.EQUAL, self.cell(term.args[0]), result, constant=NULL)
            case "lookup" | "table":
                low, entries = term.value if term.op == "table" else (0, term.value)
                self._look_up(term.args[0], list(map(int, entries)), low, result)
            case "member":
                self._test_membership(term, result)
            case "when":
                self._choose(term, result)
            case _:
                raise DeltamarkError("this engine cannot compute", term, "leave it out")
        return result

    def _fill(self, value: int, result: int) -> None:
        self._program.add(expressions.FILL, size=self._stream.size, value=value, result=result)

    def _test_membership(self, term: Term, result: int) -> None:
        self._program.add(
            expressions.MEMBER, size=self._stream.size, values=self.cell(term.args[0]),
            members=self._program.table(term.value), count=len(term.value), result=result,
        )  # fmt: skip

    def _choose(self, term: Term, result: int) -> None:
        condition, yes, no = map(self.cell, term.args)
        self._program.add(
            expressions.CHOOSE, size=self._stream.size, condition=condition, yes=yes, no=no,
            result=result,
        )  # fmt: skip

    def words(self, term: Term) -> TextCells:
        """Append the reading of a constant text, or of the words of codes."""
        words = term.args[0].type.words if term.args else (term.value,)
        encoded = [word.encode() for word in words]
        texts = TextCells(self._program.vector(), self._program.vector())
        for cell, table in (
            (texts.start, [store_bytes(self._program, word) for word in encoded]),
            (texts.length, list(map(len, encoded))),
        ):
            if term.args:
                self._look_up(term.args[0], table, 0, cell)
            else:
                self._fill(table[0], cell)
        return texts

    def _text_function(self, term: Term) -> int:
        texts = _texts(self._stream, term.args[0])
        if term.op == "less":
            return precedes(self._program, self._stream.size, texts, _texts(self._stream, term.args[1]))
        if term.op == "match":
            return match(self._program, self._stream.size, texts, term.value)
        return substring(self._program, self._stream.size, texts, *term.value)

    def _binary(self, term: Term, result: int) -> None:
        left, right = term.args
        if left.op == "literal" and term.op in self.COMMUTATIVE:
            left, right = right, left
        if right.op == "literal":
            self._apply(self.BINARY[term.op], self.cell(left), result, constant=right.value)
        elif left.op == "literal" and term.op == "subtract":
            self._apply(expressions.SUBTRACT_FROM, self.cell(right), result, constant=left.value)
        else:
            self._apply(self.BINARY[term.op], self.cell(left), result, b=self.cell(right))

    def _apply(self, step: Step, a: int, result: int, *, b: int = 0, constant: int = 0) -> None:
        """Append a function of a vector and another vector, or a constant."""
        self._program.add(step, size=self._stream.size, a=a, b=b, constant=constant, result=result)

    def _look_up(self, term: Term, table: Sequence[int], low: int, result: int) -> None:
        self._program.add(
            expressions.LOOKUP, size=self._stream.size, values=self.cell(term),
            table=self._program.table(table), low=low, result=result,
        )  # fmt: skip
