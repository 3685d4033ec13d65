"""Kernels of expressions and projections against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.kernel_blocks import Slice

from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.expressions import (
    BinaryBlock,
    ChooseBlock,
    FillBlock,
    LookupBlock,
    MemberBlock,
    PackBlock,
    SetBitBlock,
    TakeBlock,
    UnpackBlock,
)
from deltamark.dataflow.types import LARGEST, NULL

WORDS = st.sampled_from([NULL, NULL + 1, -1, 0, 1, LARGEST]) | st.integers(-5, 5) | st.integers(NULL, LARGEST)
WIDTHS = st.sampled_from([1, 2, 4, 8])
BITS = st.integers(0, 1)

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "equal": np.equal,
    "less": np.less,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "subtract_from": lambda a, b: np.subtract(b, a),
    "coalesce": lambda a, b: np.where(a == NULL, b, a),
}

constants = pytest.mark.parametrize("constant", [False, True], ids=["two vectors", "a constant"])


def rows_of(*columns):
    return st.lists(st.tuples(*columns), max_size=40)


def numbers(width):
    """Return the strategy of the signed numbers of some bytes, with the first and the last."""
    low, high = -1 << 8 * width - 1, (1 << 8 * width - 1) - 1
    return WORDS if width == 8 else st.sampled_from([low, high]) | st.integers(-5, 5) | st.integers(low, high)


def arrays(rows, columns):
    return np.array(rows, np.int64).reshape(-1, columns).T


@constants
@pytest.mark.parametrize("name", BINARY)
@given(rows_of(WORDS, WORDS), WORDS)
def test_a_function_of_two_numbers_is_that_of_numpy(name, constant, rows, number):
    a, b = arrays(rows, 2)
    if constant:
        b = np.full(len(a), number)
    piece = Slice(len(a))
    other = {"constant": number} if constant else {"b": piece.vector(b)}
    result = piece.run(getattr(expressions, name), BinaryBlock, a=piece.vector(a), **other)
    assert result == BINARY[name](a, b).astype(np.int64).tolist()


@constants
@given(rows_of(WORDS, st.integers(1, LARGEST)), st.integers(1, LARGEST))
def test_a_quotient_by_a_positive_number_is_rounded_down(constant, rows, number):
    a, b = arrays(rows, 2)
    if constant:
        b = np.full(len(a), number)
    piece = Slice(len(a))
    other = {"constant": number} if constant else {"b": piece.vector(b)}
    assert piece.run(expressions.quotient, BinaryBlock, a=piece.vector(a), **other) == (a // b).tolist()


@given(st.lists(WORDS, max_size=40))
def test_a_value_is_null_if_it_equals_null(values):
    piece = Slice(len(values))
    result = piece.run(expressions.equal, BinaryBlock, a=piece.vector(values), constant=NULL)
    assert result == [int(value == NULL) for value in values]


@given(rows_of(st.sampled_from([0, 1, 1, -4, 2**40]), WORDS, WORDS))
def test_a_choice_is_the_first_value_where_the_condition_holds(rows):
    piece, (condition, yes, no) = Slice(len(rows)), arrays(rows, 3)
    cells = {"condition": piece.vector(condition), "yes": piece.vector(yes), "no": piece.vector(no)}
    assert piece.run(expressions.choose, ChooseBlock, **cells) == np.where(condition != 0, yes, no).tolist()


@given(st.lists(WORDS, min_size=1, max_size=30), st.integers(-(2**40), 2**40), st.data())
def test_a_lookup_is_an_index_into_its_table(table, low, data):
    places = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=40))
    piece = Slice(len(places))
    cells = {"values": piece.vector([low + place for place in places]), "table": piece.array(table), "low": low}
    assert piece.run(expressions.lookup, LookupBlock, **cells) == np.array(table)[places].tolist()


@given(st.lists(WORDS, max_size=40), st.lists(WORDS, max_size=12, unique=True))
def test_members_are_the_values_in_a_set(values, members):
    values = values + members
    piece = Slice(len(values))
    cells = {"values": piece.vector(values), "members": piece.array(sorted(members)), "count": len(members)}
    assert piece.run(expressions.member, MemberBlock, **cells) == np.isin(values, members).astype(int).tolist()


@given(st.integers(0, 40), WORDS)
def test_a_fill_repeats_its_value(size, value):
    assert Slice(size).run(expressions.fill, FillBlock, value=value) == [value] * size


def selection_of(rows, chosen):
    """Return the rows of a slice, or those at a selection of bits."""
    return rows if chosen is None else [row for row, bit in zip(rows, chosen, strict=False) if bit]


selections = st.none() | st.lists(BITS, min_size=40, max_size=40)


@given(WIDTHS, st.data(), selections)
def test_a_take_copies_the_selected_values(width, data, chosen):
    values = data.draw(st.lists(numbers(width), max_size=40))
    selected = selection_of(range(len(values)), chosen)
    piece = Slice(len(selected))
    selection = 0 if chosen is None else piece.vector(selected)
    source = piece.vector(values, width)
    result = piece.run(expressions.take, TakeBlock, source=source, width=width, selected=selection)
    assert result == [values[row] for row in selected]


@given(rows_of(WORDS, BITS), st.integers(0, 63))
def test_a_bit_is_set_at_the_selected_rows_alone(rows, bit):
    values, chosen = arrays(rows, 2)
    selected = np.flatnonzero(chosen)
    piece = Slice(len(selected))
    result = piece.vector(values)
    piece.run(expressions.set_bit, SetBitBlock, selected=piece.vector(selected), bit=bit, result=result)
    expected = values | np.where(chosen, np.int64(1) << np.int64(bit), 0)
    assert piece.values(result, len(rows)) == expected.tolist()


@given(st.lists(st.tuples(st.integers(-(2**20), 2**20), st.integers(1, 1000), st.booleans()), max_size=4), st.data())
def test_digits_are_unpacked_from_the_number_into_which_they_were_packed(digits, data):
    """A nullable digit has one value more, for NULL."""
    columns = [
        st.integers(low, low + values - 1) | (st.just(NULL) if nullable else st.nothing())
        for low, values, nullable in digits
    ]
    rows = data.draw(rows_of(*columns))
    piece, values = Slice(len(rows)), arrays(rows, len(digits)) if digits else []
    expected, packed = np.zeros(len(rows), np.int64), [0] * len(rows)
    for (low, radix, nullable), column in zip(digits, values, strict=True):
        base = low - nullable
        cells = {"number": piece.vector(packed), "value": piece.vector(column)}
        packed = piece.run(expressions.pack, PackBlock, low=base, radix=radix + nullable, **cells)
        expected = expected * (radix + nullable) + np.where(column == NULL, 0, column - base)
    assert packed == expected.tolist()
    divisor = 1
    for (low, radix, nullable), column in zip(reversed(digits), reversed(values), strict=True):
        fields = {"divisor": divisor, "radix": radix + nullable, "low": low - nullable, "nullable": nullable}
        unpacked = piece.run(expressions.unpack, UnpackBlock, number=piece.vector(packed), **fields)
        assert unpacked == column.tolist()
        divisor *= radix + nullable
