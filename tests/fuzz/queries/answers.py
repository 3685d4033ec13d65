"""Answers of the engine as DuckDB gives them, and the differences of two answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import Schema, value_of
from deltamark.harness.check.answers import dated

RELATIVE = 1e-9
"""The largest relative difference of two doubles that count as equal."""


def rows_of(schema: Schema, batches: Sequence[Batch], time: int, types: Sequence[str]) -> Counter[tuple[object, ...]]:
    """Return the answer at a time. types: DuckDB's types of its columns; a DOUBLE has two columns in the engine."""
    rows: Counter[tuple[object, ...]] = Counter()
    for batch in batches:
        columns = [[value_of(schema[name], each) for each in batch.columns[name]] for name in schema.names]
        merged = list(_merged(dict(zip(schema.names, columns, strict=True)), types))
        for at, (when, diff) in enumerate(zip(batch.time.tolist(), batch.diff.tolist(), strict=True)):
            if when <= time:
                rows[tuple(column[at] for column in merged)] += diff
    return Counter({row: diff for row, diff in rows.items() if diff})


def _merged(columns: Mapping[str, list[object]], types: Sequence[str]) -> Iterator[list[object]]:
    """Yield columns as DuckDB has them. A DOUBLE that is a whole number or a decimal has one column."""
    left = list(columns)
    for each in types:
        column = columns[left.pop(0)]
        is_double = each in ("DOUBLE", "FLOAT")
        if is_double and left and left[0].endswith(".den"):
            column = [_double(num, den) for num, den in zip(column, columns[left.pop(0)], strict=True)]
        is_condition = [isinstance(value, bool) for value in column if value is not None]
        assert set(is_condition) <= {each == "BOOLEAN"}, f"values of another type than {each}"
        yield [None if value is None else float(value) for value in column] if is_double else column
    assert not left, "more columns than DuckDB has"


def _double(num: object, den: object) -> float | None:
    if num is None or den is None:
        assert num is den, "one part of a quotient is NULL"
        return None
    if den == 0:
        return math.nan if num == 0 else math.copysign(math.inf, num)
    return float(Fraction(num) / Fraction(den))


def differences(said: Counter[tuple[object, ...]], wanted: Counter[tuple[object, ...]]) -> list[str]:
    """Return a line for each row whose number of occurrences differs."""
    own, other = Counter(said), Counter(wanted)
    own.subtract(other)
    left = [(row, count) for row, count in own.items() if count]
    more = [row for row, count in left if count > 0 for _ in range(count)]
    for row in [row for row, count in left if count < 0 for _ in range(-count)]:
        same = next((each for each in more if _alike(each, row)), None)
        if same is None:
            return [f"  {count:+d} {row}" for row, count in left] + [
                f"  expected: {_shown(wanted)}",
                f"  it is:    {_shown(said)}",
            ]
        more.remove(same)
    return [f"  {count:+d} {row}" for row, count in left] if more else []


def _shown(answer: Counter[tuple[object, ...]]) -> str:
    return ", ".join(f"{row} x {count}" if count != 1 else str(row) for row, count in list(answer.items())[:20])


def _alike(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(
        dated(a) == dated(b) or (isinstance(a, float) and isinstance(b, float) and _near(a, b))
        for a, b in zip(one, other, strict=True)
    )


def _near(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=RELATIVE, abs_tol=1e-12)
