"""Capital and small letters as DuckDB has them: each character has at most one, whatever the language."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

CASED_CODE_POINTS = 1 << 17
"""The code points from which on no letter has another case."""

SURROGATES = range(0xD800, 0xE000)
"""Code points that are no characters."""


@cache
def cased(function: Literal["upper", "lower"]) -> Sequence[int]:
    """Return for each of the first code points its capital or its small letter."""
    import duckdb  # noqa: PLC0415 (it takes a while to load)

    codes = range(1, CASED_CODE_POINTS)
    text = f"SELECT code, unicode({function}(chr(code))) FROM (SELECT unnest(?::INTEGER[]) code)"  # noqa: S608 (a constant)
    characters = [code for code in codes if code not in SURROGATES]
    with duckdb.connect(config={"enable_external_access": "false", "threads": 1}) as connection:
        changed = dict(connection.execute(text, [characters]).fetchall())
    return (0, *(changed.get(code, code) for code in codes))
