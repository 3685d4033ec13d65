"""The rule about errors of values, such as a double that is out of the range of its cast.

An engine may leave out a value on which its answer does not depend. DuckDB and the engine leave out different ones: the
optimizer of DuckDB drops a join with an empty side, and its joins do not read the rows of the other side. So the text
decides, and no plan of it:

- An error is due if a SELECT of the text has one, which DuckDB runs by itself, with or without its optimizer, over
  the rows that are live at the end of a time of the feed, or over those that are live within the feed. Its conditions
  with subqueries may be left out: the optimizer lets a comparison of an INTERSECT precede them. So may those of a
  subquery on the query around it. That a correlated scalar subquery has several rows is due if DuckDB says so of the
  whole text at the same time, without its optimizer, or of a subquery around it without these conditions.
- An answer without an error is that of DuckDB with NULL in the place of a value that has an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import duckdb
import pyarrow as pa
from support.reference.errors import (
    LongSubstringError,
    OutOfRangeError,
    SeveralRowsError,
    WideNumberError,
    WideSumError,
)

from deltamark.dataflow.types import LARGEST
from deltamark.errors import DeltamarkError
from fuzz.queries.parts import Part, placed
from fuzz.queries.recomputed import Answer, UnfitError, answer_of, database, database_of
from fuzz.queries.selects import MAY_FAIL
from fuzz.queries.subqueries import OF_EACH
from fuzz.queries.tables import Table
from fuzz.queries.values import OF_OUTER

CAUSES = {each.cause for each in (WideNumberError, WideSumError, OutOfRangeError, LongSubstringError)}
"""The causes of the errors of the engine that values have."""

OF_VALUES = (duckdb.DataError, duckdb.InvalidInputException)
"""DuckDB's errors of values."""

SEVERAL_IN_DUCKDB = "More than one row returned by a subquery"


def is_due(error: DeltamarkError, query: Part, tables: Sequence[Table], times: Sequence[int]) -> bool:
    """Return whether the engine may raise an error in a feed of some times."""
    if error.cause == SeveralRowsError.cause and error.time in times:
        texts = (str(query), *_untied(query, OF_EACH))
        return any(has_several_rows(each, tables, error.time, optimized=False) for each in texts)
    if error.cause not in CAUSES:
        return False
    states = [{each.name: each.at(time) for each in tables} for time in times]
    states.append({each.name: each.during(times) for each in tables})
    return any(
        _fails(text, rows, optimized=optimized)
        for text in _selects(query)
        for rows in states
        for optimized in (False, True)
    )


def _selects(query: Part) -> Iterator[str]:
    """Yield a text, and each query in it, also without subqueries, behind the common table expressions of the text."""
    yield str(query)
    yield from _untied(query, MAY_FAIL)
    for part, _ in placed(query):
        if part.sort == "query":
            text, early = str(part), str(_replaced(part, _without_subquery))
            yield from (_before(query) + each for each in dict.fromkeys((text, early)) if each != str(query))


def _untied(query: Part, construct: str) -> Iterator[str]:
    """Yield each query in a text around an example of a construct, without its conditions on the query around it."""
    for part, _ in placed(query):
        if part.sort == "query" and part is not query and any(part.of_construct(construct)):
            texts = (str(_replaced(part, _without_tie)), str(_without_outer(part)))
            yield from (_before(query) + each for each in dict.fromkeys(texts))


def _before(query: Part) -> str:
    """Return the common table expressions of a text."""
    first = str(query.pieces[0])
    return first if first.startswith("WITH ") else ""


def _without_subquery(part: Part) -> Part:
    is_condition = part.sort == "truth" and any(each.sort == "query" for each, _ in placed(part))
    return Part("truth", ("TRUE",)) if is_condition else part


def _without_tie(part: Part) -> Part:
    return Part("truth", ("TRUE",)) if part.construct.startswith("correlated by ") else part


def _without_outer(part: Part) -> Part:
    """Return a part without the conditions on columns of a query around, the outermost ones."""
    if part.sort == "truth" and (_without_tie(part) is not part or any(part.of_construct(OF_OUTER))):
        return Part("truth", ("TRUE",))
    return replace(part, pieces=tuple(each if isinstance(each, str) else _without_outer(each) for each in part.pieces))


def _replaced(part: Part, new: Callable[[Part], Part]) -> Part:
    """Return a part with other parts in the places of its parts, the innermost first, and of itself."""
    pieces = tuple(each if isinstance(each, str) else _replaced(each, new) for each in part.pieces)
    return new(replace(part, pieces=pieces))


def _fails(text: str, rows: Mapping[str, pa.Table], *, optimized: bool) -> bool:
    """Return whether a query of some rows has an error, or a number of more than 64 bits, which DuckDB may have."""
    try:
        found = database_of(rows, optimized=optimized).execute(text).fetchall()
    except OF_VALUES:
        return True
    except duckdb.Error:  # a correlated query does not run by itself
        database.cache_clear()
        return False
    return any(_is_wide(value) for row in found for value in row)


def _is_wide(value: object) -> bool:
    if isinstance(value, Decimal):
        return abs(int("".join(map(str, value.as_tuple().digits)))) > LARGEST
    return isinstance(value, int) and abs(value) > LARGEST


def answers(query: Part, tables: Sequence[Table], times: Sequence[int], *, optimized: bool = True) -> dict[int, Answer]:
    """Return the answers of DuckDB at those of some times at which it has one.

    Where it raises an error of a value, the answer is the one with NULL in the place of the value.
    """
    text, defined = str(query), str(_replaced(query, _with_null))
    found: dict[int, Answer] = {}
    for time in times:
        try:
            found[time] = answer_of(text, tables, time, optimized=optimized)
        except UnfitError as error:
            if not isinstance(error.__cause__, OF_VALUES):
                raise
            if defined != text:
                with suppress(UnfitError):
                    found[time] = answer_of(defined, tables, time, optimized=optimized)
    return found


def has_several_rows(text: str, tables: Sequence[Table], time: int, *, optimized: bool = True) -> bool:
    """Return whether DuckDB raises the error of a scalar subquery with several rows."""
    try:
        answer_of(text, tables, time, optimized=optimized)
    except UnfitError as error:
        return SEVERAL_IN_DUCKDB in str(error.__cause__)
    return False


def has_several_rows_alone(query: Part, tables: Sequence[Table], time: int) -> bool:
    """Return whether a scalar subquery of a text has several rows, also if no row of the answer depends on it."""
    scalars = (str(part) for part, _ in placed(query) if part.construct.startswith("scalar subquery"))
    texts = [str(query), *_untied(query, OF_EACH), *(f"{_before(query)}SELECT {each}" for each in scalars)]
    return any(has_several_rows(each, tables, time, optimized=False) for each in texts)


def _with_null(part: Part) -> Part:
    """Return a part that has NULL in the place of a value with an error."""
    return replace(part, pieces=("TRY(", *part.pieces, ")")) if part.construct == MAY_FAIL else part
