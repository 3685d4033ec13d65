"""Laws of narrow inputs: a column is read in 1, 2, 4 or 8 bytes by its bounds, and no answer depends on these."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.inputs import checked_column
from deltamark.dataflow.types import BOOL, NULL, TEXT, code_type, date_type, integer, timestamp_type
from deltamark.errors import DeltamarkError

EXTREMES = {width: (-1 << 8 * width - 1, (1 << 8 * width - 1) - 1) for width in (1, 2, 4)}
"""The least and the largest number of each narrow width."""

WIDE = integer(-(2**40), 2**40)

TYPES = {
    "a number of one byte": (integer(-128, 127), 1),
    "a number below the bytes": (integer(-129, 0), 2),
    "a number above the bytes": (integer(0, 128), 2),
    "a number without a sign": (integer(0, 255), 2),
    "a number of two bytes": (integer(-(2**15), 2**15 - 1), 2),
    "a number above two bytes": (integer(0, 2**15), 4),
    "a number of four bytes": (integer(-(2**31), 2**31 - 1), 4),
    "a number above four bytes": (integer(0, 2**31), 8),
    "a date": (date_type(8035, 10591), 2),
    "a condition": (BOOL, 1),
    "a code of 128 words": (code_type(tuple(f"{number:03}" for number in range(128))), 1),
    "a code of 129 words": (code_type(tuple(f"{number:03}" for number in range(129))), 2),
    "a timestamp": (timestamp_type(0, 2**40), 8),
    "a text": (TEXT, 4),
    "a number that may be NULL": (integer(0, 9).or_null(), 8),
    "a condition that may be NULL": (BOOL.or_null(), 8),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_column_has_the_least_width_of_its_bounds(name):
    type_, width = TYPES[name]
    assert type_.width == width


@pytest.mark.parametrize("width", EXTREMES)
def test_a_column_has_its_bounds_and_nothing_beyond_them(width):
    """The first numbers beyond would have other values in the bytes of the column."""
    low, high = EXTREMES[width]
    type_ = integer(low, high)
    for form in (list, lambda values: np.array(values, np.int64), lambda values: pa.array(values, pa.int64())):
        assert checked_column("x", type_, form([low, -1, 0, high])).tolist() == [low, -1, 0, high]
        for beyond in (low - 1, high + 1, 2 * high + 1):
            with pytest.raises(DeltamarkError, match="a value outside its bounds"):
                checked_column("x", type_, form([0, beyond]))


@pytest.mark.parametrize("width", EXTREMES)
@pytest.mark.parametrize("kind", ["i", "u"])
def test_an_array_of_the_width_is_not_copied(width, kind):
    values = np.array([0, 1, 127], f"{kind}{width}")
    assert np.shares_memory(checked_column("x", integer(*EXTREMES[width]), values), values)


def test_an_array_of_conditions_is_not_copied():
    values = np.array([True, False])
    assert np.shares_memory(checked_column("x", BOOL, values), values)


def rows_of(random):
    """Return rows of values of 1, 2, 4 and 8 bytes, which are extreme or near zero, and of 8 bytes that may be NULL."""
    draw = [random.choice([low, low + 1, -1, 0, 1, high - 1, high], 400) for low, high in EXTREMES.values()]
    large = random.choice([-(2**40), -1, 0, 2**40], 400)
    return [*draw, large, random.choice([NULL, -128, 0, 127], 400)]


NAMES = ("one", "two", "four", "eight", "some")


def plans(types, some):
    rows = source("rows", {**dict(zip(NAMES, types, strict=False)), "some": some}, 10_000)
    ones = source("ones", {"key": types[0], "other": types[1]}, 10_000)
    above = rows.where((col.one >= -1) & (col.two < 1) & (col.four > -(2**31)))
    return {
        "the columns": rows,
        "ranges": above.select(*NAMES),
        "a comparison": rows.where(col.one * 256 < col.two).select("one", "two", "some"),
        "members": rows.where(col.one.is_in([-128, 0, 127]) | col.two.is_in([-(2**15)])).select("one", "four"),
        "a join": rows.join(ones, on={"one": "key"}).select("one", "two", "other", "four"),
        "a join of narrow rows": above.join(ones, on={"two": "other"}).select("one", "two", "key", "eight"),
        "groups": rows.aggregate("one", sum=col.two.sum(), some=col.some.coalesce(5).sum()),
        "the largest": rows.largest("four", by="two"),
        "groups by two": above.aggregate(("two", "some"), sum=col.four.sum()),
        "distinct rows": rows.distinct("two", "one"),
    }


NARROW_TYPES = [*(integer(*each) for each in EXTREMES.values()), WIDE]
SOME = integer(-128, 127).or_null()


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", plans(NARROW_TYPES, SOME))
def test_an_answer_does_not_depend_on_the_bounds_of_its_inputs(name, workers):
    narrow, wide = plans(NARROW_TYPES, SOME)[name], plans([WIDE] * 4, WIDE.or_null())[name]
    assert changes(narrow, workers) == changes(wide, workers)


def changes(plan, workers):
    """Return the changes of a plan by insertions and, later, by retractions of half of the rows."""
    columns, found = rows_of(np.random.default_rng(7)), []
    whole = {
        "rows": dict(zip(NAMES, columns, strict=True)),
        "ones": {"key": columns[0][::9], "other": columns[1][::9]},
    }
    with closing(Dataflow(plan, workers=workers)) as dataflow:
        for time, (diff, parts) in enumerate([(1, slice(0, 200)), (1, slice(200, 400)), (-1, slice(100, 300))]):
            given = {
                name: {column: values[parts] for column, values in of.items()}
                for name, of in whole.items()
                if name in dataflow.inputs
            }
            out = dataflow.feed(
                {
                    name: Batch(np.full(size, time), np.full(size, diff), each)
                    for name, each in given.items()
                    if (size := len(next(iter(each.values()))))
                }
            )
            values = (out.columns[column].tolist() for column in plan.schema.names)
            found += sorted(zip(out.time.tolist(), *values, out.diff.tolist(), strict=True))
    return found


def test_a_batch_is_cut_at_slices_of_narrow_rows():
    """The slices of a feed begin at other addresses in columns of each width."""
    size, (one, two, four) = 10_000, EXTREMES.values()
    columns = [np.arange(size) % (high - low + 1) + low for low, high in (one, two, four)]
    rows = source("rows", {name: integer(*each) for name, each in zip(NAMES, (one, two, four), strict=False)}, size)
    plan = rows.select("one", "two", "four")
    with closing(Dataflow(plan)) as dataflow:
        out = dataflow.feed(
            {"rows": Batch(np.zeros(size, np.int64), np.ones(size, np.int64), dict(zip(NAMES, columns, strict=False)))}
        )
    assert [out.columns[name].tolist() for name in NAMES[:3]] == [each.tolist() for each in columns]
    assert all(a <= b for a, b in pairwise(out.time.tolist()))
