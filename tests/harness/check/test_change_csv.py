"""Changes as CSV equal the lines of Python's csv module, and their digest that of the plain Python of the manual."""

from __future__ import annotations

import csv
import io
import math
import re
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import ROOT

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import (
    BOOL,
    DOUBLE,
    LARGEST,
    NULL,
    SHORT,
    TEXT,
    Field,
    Schema,
    code_type,
    date_type,
    integer,
    pack_short,
    stored_double,
    timestamp_type,
    value_of,
)
from deltamark.harness.check.change_stream import BLOCK_ROWS, ChangeCsv, Digest
from deltamark.harness.cli.main import main
from deltamark.harness.engines.answers import answer_columns, in_order

(PLAIN,) = re.findall(r"```python\n(import sys.*?)```", (ROOT / "docs" / "queries.md").read_text(), re.DOTALL)

WORDS = ("", "a,b", 'b"c', "d")
SCHEMA = Schema(
    (
        Field("money", integer(-LARGEST, LARGEST, 2).or_null()),
        Field("fine", integer(0, 9, 6)),
        Field("count", integer(-LARGEST, LARGEST)),
        Field("day", date_type(-30000, 60000).or_null()),
        Field("word", code_type(WORDS).or_null()),
        Field("short", SHORT),
        Field("text", TEXT.or_null()),
        Field("late", BOOL.or_null()),
        Field("double", DOUBLE.or_null()),
        Field("moment", timestamp_type(0, 2**50).or_null()),
    ),
    100,
)
NUMBERS = st.integers(-LARGEST, LARGEST)
TEXTS = st.text(st.sampled_from('ab,"é 9\n'), max_size=12)  # versions of csv disagree about \r
ROWS = st.lists(
    st.tuples(
        NUMBERS | st.just(NULL),
        st.integers(0, 9),
        NUMBERS,
        st.integers(-30000, 60000) | st.just(NULL),
        st.sampled_from([0, 1, 2, 3, NULL]),
        st.text(st.sampled_from('ab,"\n'), max_size=7).map(pack_short),
        TEXTS | st.none(),
        st.sampled_from([0, 1, NULL]),
        st.floats().map(stored_double) | st.just(NULL),
        st.integers(0, 2**50) | st.just(NULL),
    ),
    min_size=1,
    max_size=20,
)


def batch(rows):
    columns = {
        name: np.array(values, dtype=object if name == "text" else np.int64)
        for name, values in zip(SCHEMA.names, zip(*rows, strict=True), strict=True)
    }
    return Batch(np.arange(len(rows)) * 3, np.array([(-1) ** at * (at + 1) for at in range(len(rows))]), columns)


def in_python(changes):
    """Write changes with the standard library."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = [changes.columns[name].tolist() for name in SCHEMA.names]
    for time, diff, *row in zip(changes.time.tolist(), changes.diff.tolist(), *columns, strict=True):
        values = [value_of(field.type, value) for field, value in zip(SCHEMA.fields, row, strict=True)]
        writer.writerow([time, diff, *map(in_words, values)])
    return out.getvalue().encode()


def in_words(value):
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:f}" if isinstance(value, Decimal) else value


@given(ROWS)
def test_lines_equal_those_of_the_csv_module(rows):
    changes = batch(rows)
    assert b"".join(ChangeCsv(SCHEMA).blocks(changes)) == in_python(changes)


def test_blocks_of_rows_are_written_one_after_another():
    row = (1, 2, 3, 4, 1, pack_short("x"), "text", 1, 5, 6)
    changes = batch([row] * (BLOCK_ROWS + 3))
    assert b"".join(ChangeCsv(SCHEMA).blocks(changes)) == in_python(changes)


def plain(lines):
    run = subprocess.run([sys.executable, "-c", PLAIN], input=lines, capture_output=True, check=True)
    return run.stdout.decode().strip()


def test_the_plain_python_of_the_readme_computes_the_digest(data, capfdbinary):
    """The digest of the lines of the command `changes`, in any order."""
    words = ["changes", "q10", "--data", str(data), "--logical", "100"]
    csv_lines, said = (main([*words, *more]) == 0 and capfdbinary.readouterr().out for more in ([], ["--digest"]))
    header, *rest = csv_lines.splitlines(keepends=True)
    assert len(rest) > 50
    assert rest == sorted(rest, key=lambda line: int(line.split(b",")[0]))
    assert plain(b"".join([header, *reversed(rest)])) == said.decode().strip()


@given(st.lists(ROWS, min_size=1, max_size=3))
def test_a_digest_is_a_sum_over_batches(parts):
    lines, whole, apart = ChangeCsv(SCHEMA), Digest(), Digest()
    lines.digest(batch([row for rows in parts for row in rows]), whole)
    first = 0
    for rows in parts:
        changes = batch([row for each in parts for row in each])
        last = first + len(rows)
        columns = {name: values[first:last] for name, values in changes.columns.items()}
        lines.digest(Batch(changes.time[first:last], changes.diff[first:last], columns), apart)
        first = last
    assert str(whole) == str(apart)


def test_a_digest_is_not_linear_in_diff():
    digests = set()
    for diff in (1, 2, -1):
        changes, digest = batch([(1, 2, 3, 4, 1, pack_short("x"), "text", 1, 5, 6)]), Digest()
        changes.diff[:] = diff
        ChangeCsv(SCHEMA).digest(changes, digest)
        digests.add(str(digest))
    assert len(digests) == 3


def test_averages_are_the_nearest_double():
    schema = Schema((Field("x.num", integer(-LARGEST, LARGEST, 2)), Field("x.den", integer(0, LARGEST))), 1)
    (column,) = answer_columns(schema)
    assert (column.name, column.stored) == ("x", ("x.num", "x.den"))
    assert column.convert(1000, 3) == 10 / 3
    assert column.convert(2**62 + 1, 3) == (2**62 + 1) / 300
    assert (column.convert(5, 0), column.convert(-5, 0)) == (math.inf, -math.inf)
    assert math.isnan(column.convert(0, 0))
    assert column.convert(NULL, NULL) is None


@pytest.mark.parametrize(
    ("order", "sorted_rows"),
    [
        ((), [("Z", 1), ("a", 2), ("é", 1)]),
        (("-text",), [("é", 1), ("a", 2), ("Z", 1)]),
        (("number",), [("Z", 1), ("é", 1), ("a", 2)]),
        (("-number",), [("a", 2), ("Z", 1), ("é", 1)]),
    ],
)
def test_rows_are_ordered_by_bytes_and_ties_by_the_other_columns(order, sorted_rows):
    schema = Schema((Field("text", TEXT), Field("number", integer(0, 9))), 3)
    assert in_order(schema, order, [("é", 1), ("a", 2), ("Z", 1)]) == sorted_rows
