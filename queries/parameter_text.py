"""Parameters as text: values are parsed as the type of the validation value, and checked against bounds."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, InvalidOperation

from deltamark.errors import DeltamarkError, shortened

ParameterValue = int | Decimal | dt.date | str | tuple[int, ...] | tuple[str, ...]

FIRST_DAY, LAST_DAY = dt.date(1900, 1, 1), dt.date(2100, 12, 31)
"""The bounds of dates: queries add months and years to them."""

MAX_WHOLE, MAX_DECIMAL, MAX_PLACES = 100_000, 10**12, 12
"""The bounds of whole numbers (days, sizes, quantities) and of decimals, and the most decimal places."""


def read_value(name: str, text: str, like: ParameterValue) -> ParameterValue:
    """Parse a value of the type of another."""
    try:
        match like:
            case dt.date():
                value: ParameterValue = dt.date.fromisoformat(text)
            case tuple():
                words = [each.strip() for each in text.split(",")]
                value = tuple(map(int, words)) if isinstance(like[0], int) else tuple(words)
            case _:
                value = type(like)(text)
    except (ValueError, InvalidOperation) as error:
        raise DeltamarkError(f"not a value of {name}", shortened(text), f"write one such as {shown(like)}") from error
    for each in value if isinstance(value, tuple) else (value,):
        _check(name, text, each)
    return value


def _check(name: str, text: str, value: ParameterValue) -> None:
    """Refuse a number or a date that no query can compute with."""
    cause, said = f"a value of {name} out of bounds", shortened(text)
    match value:
        case dt.date() if not FIRST_DAY <= value <= LAST_DAY:
            raise DeltamarkError(cause, said, f"write one from {FIRST_DAY} to {LAST_DAY}")
        case int() if abs(value) > MAX_WHOLE:
            raise DeltamarkError(cause, said, f"write one from -{MAX_WHOLE} to {MAX_WHOLE}")
        case Decimal() if not (value.is_finite() and abs(value) <= MAX_DECIMAL and value == round(value, MAX_PLACES)):
            remedy = f"write one from -{MAX_DECIMAL} to {MAX_DECIMAL} with at most {MAX_PLACES} decimal places"
            raise DeltamarkError(cause, said, remedy)


def shown(value: ParameterValue) -> str:
    """Write a value as `read_value` parses it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
