"""Arithmetic of doubles, and arithmetic that may fail, as the kernels number it; and the errors of both."""

from __future__ import annotations

from dataclasses import dataclass

from deltamark.dataflow.builder.program import BlockAddress
from deltamark.dataflow.kernels import numbers
from deltamark.dataflow.kernels.numbers import CheckedBlock, FromDoubleBlock
from deltamark.dataflow.plan.term_sql import literal, sql
from deltamark.dataflow.plan.terms import Checked, FromDouble
from deltamark.dataflow.types import DOUBLE
from deltamark.errors import DeltamarkError

_NUMBERS = {
    "+": numbers.PLUS, "-": numbers.MINUS, "*": numbers.TIMES, "/": numbers.DIVIDED, "%": numbers.MODULO,
    "round": numbers.ROUND, "round tens": numbers.ROUND_TENS, "floor": numbers.FLOOR, "ceil": numbers.CEIL,
    "trunc": numbers.TRUNC, "abs": numbers.ABS, "sqrt": numbers.SQRT, "float": numbers.SINGLE,
}  # fmt: skip


def function_number(name: str) -> int:
    """Return the number that kernels give a function."""
    return _NUMBERS[name]


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
