"""Types of columns, with the bounds from which the planner chooses indexes and proves that numbers fit in 64 bits.

At run time every column is an array of int64; a column of an input has as few bytes a value as its bounds need.

int    a number times 10**scale, within low..high
date   days since 1970-01-01
code   an index into a sorted list of words, so codes are ordered as their words are
short  a text of at most seven bytes, packed so that integers are ordered as texts are by bytes
text   the number of an interned text; equal texts have equal numbers (in an input: offsets and bytes)
bool   a condition: 1 if it holds, else 0
double a number of 64 bits with a floating point, as an integer in the order of the numbers: see `stored_double`
timestamp    microseconds since 1970-01-01, in no time zone
timestamptz  microseconds since 1970-01-01 in UTC
time         microseconds since midnight
interval     microseconds between two timestamps; no column of an input has it
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from deltamark.errors import DeltamarkError, unknown

Kind = Literal["int", "date", "code", "short", "text", "bool", "double", "timestamp", "timestamptz", "time", "interval"]
TIMESTAMPS: tuple[Kind, ...] = ("timestamp", "timestamptz")

LARGEST = 2**63 - 1
NULL = -(2**63)
"""The stored value of NULL in a nullable column: below every bound."""

LAST_TIME = 2**62 - 2
"""The last logical time: kernels compare times plus one."""
FOREVER = 2**62
"""The end of all times: later than every logical time and every iteration."""

SHORT_BYTES = 7
EPOCH = dt.date(1970, 1, 1)
FIRST_MOMENT = dt.datetime(1970, 1, 1)  # noqa: DTZ001 (in no time zone)
MICROSECONDS_PER_DAY = 24 * 60 * 60 * 10**6
FIRST_DAY, LAST_DAY = ((day - EPOCH).days for day in (dt.date.min, dt.date.max))
"""The days since 1970-01-01 of the first and the last date that Python has."""


@dataclass(frozen=True, repr=False)
class Type:
    """The type of a column: BOOL, TEXT, SHORT, DOUBLE, TIME, or made by a function of this module."""

    kind: Kind
    scale: int = 0
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()
    nullable: bool = False

    def __repr__(self) -> str:
        """Return an expression that evaluates to this type; different types have different ones."""
        match self.kind:
            case "int":
                text = f"integer({self.low}, {self.high}{f', scale={self.scale}' if self.scale else ''})"
            case "date" if not self.scale:
                text = f"date_type({self.low}, {self.high})"
            case "timestamp" | "timestamptz" if not self.scale:
                zone = ", zoned=True" if self.kind == "timestamptz" else ""
                text = f"timestamp_type({self.low}, {self.high}{zone})"
            case "code" if self == replace(code_type(self.words), nullable=self.nullable):
                text = f"code_type({self.words})"
            case "bool" | "text" | "short" | "double" | "time" if self == replace(
                NAMED[self.kind], nullable=self.nullable
            ):
                text = self.kind.upper()
            case _:
                text = f"Type({self.kind!r}, {self.scale}, {self.low}, {self.high}, {self.words})"
        return f"{text}.or_null()" if self.nullable else text

    def __str__(self) -> str:
        name = f"decimal({self.scale})" if self.kind == "int" and self.scale else self.kind
        return f"{name}?" if self.nullable else name

    @property
    def comparable(self) -> tuple[Kind, tuple[str, ...]]:
        """The part that two types share if their values can be compared, joined or concatenated, once scales agree."""
        return self.kind, self.words

    @property
    def width(self) -> int:
        """Bytes of a value in the columns of an input: 4 of an offset of a text, and 8 of a number that may be NULL."""
        if self.kind == "text":
            return 4
        return 8 if self.nullable else narrowest(self.low, self.high)

    @property
    def stored_width(self) -> int:
        """Bytes of a value in an arrangement."""
        return 4 if not self.nullable and self.low >= -(2**31) and self.high < 2**31 else 8

    def or_null(self) -> Type:
        """Return the type of the same values and NULL.

        >>> integer(0, 9).or_null()
        integer(0, 9).or_null()
        """
        return replace(self, nullable=True)


def narrowest(low: int, high: int) -> int:
    """Return the least number of bytes, 1, 2, 4 or 8, in which a signed number from low to high fits.

    >>> narrowest(-128, 127), narrowest(0, 128), narrowest(0, 1 << 31)
    (1, 2, 8)
    """
    bits = max(high, ~low).bit_length() + 1
    return 1 if bits <= 8 else 2 if bits <= 16 else 4 if bits <= 32 else 8


TOO_WIDE = "a value may not fit in 64 bits"
"""The cause of the error for a number whose bounds are too far apart."""


def integer(low: int, high: int, scale: int = 0) -> Type:
    """Return the type of numbers from low to high; with a scale, of decimals that are stored times 10**scale.

    >>> integer(1, 99)
    integer(1, 99)
    """
    _refuse_too_wide(low, high)
    return Type("int", scale, low, high)


def _refuse_too_wide(low: int, high: int) -> None:
    if not -LARGEST <= low <= high <= LARGEST:
        raise DeltamarkError(TOO_WIDE, f"{low}..{high}", "narrow the bounds of the columns that it comes from")


def decimal(low: Decimal | int | str, high: Decimal | int | str, *, scale: int) -> Type:
    """Return the type of exact decimals from low to high with `scale` digits behind the point.

    Batches have them times 10**scale: the price 9.50 is 950.

    >>> decimal(0, "9999.99", scale=2)
    integer(0, 999999, scale=2)
    """
    scaled = [Decimal(bound).scaleb(scale) for bound in (low, high)]
    if any(bound != int(bound) for bound in scaled):
        raise DeltamarkError("a bound with more digits than the scale", f"{low}..{high}, scale={scale}", "round it")
    return integer(int(scaled[0]), int(scaled[1]), scale)


def date_type(low: dt.date | int, high: dt.date | int) -> Type:
    """Return the type of dates from low to high, each a date or its days since 1970-01-01.

    >>> date_type(dt.date(1992, 1, 1), dt.date(1998, 12, 31))
    date_type(8035, 10591)
    """
    first, last = ((each - EPOCH).days if isinstance(each, dt.date) else each for each in (low, high))
    _refuse_too_wide(first, last)
    return Type("date", 0, first, last)


def timestamp_type(low: dt.datetime | int, high: dt.datetime | int, *, zoned: bool = False) -> Type:
    """Return the type of timestamps from low to high, each a datetime or its microseconds since 1970-01-01.

    zoned: whether they are moments in UTC (TIMESTAMP WITH TIME ZONE).

    >>> timestamp_type(dt.datetime(1970, 1, 1, 0, 0, 1), dt.datetime(1970, 1, 2))
    timestamp_type(1000000, 86400000000)
    """
    first, last = (each if isinstance(each, int) else microseconds(each) for each in (low, high))
    _refuse_too_wide(first, last)
    return Type("timestamptz" if zoned else "timestamp", 0, first, last)


def interval_type(low: int, high: int) -> Type:
    """Return the type of intervals from low to high microseconds."""
    _refuse_too_wide(low, high)
    return Type("interval", 0, low, high)


def microseconds(moment: dt.datetime) -> int:
    """Return the microseconds since 1970-01-01, in UTC if the moment has a time zone."""
    start = FIRST_MOMENT if moment.tzinfo is None else FIRST_MOMENT.replace(tzinfo=dt.UTC)
    return (moment - start) // dt.timedelta(microseconds=1)


def code_type(words: tuple[str, ...]) -> Type:
    """Return the type of codes: indexes into a sorted tuple of distinct words.

    >>> code_type(("AIR", "RAIL", "SHIP"))
    code_type(('AIR', 'RAIL', 'SHIP'))
    """
    if list(words) != sorted(set(words)):
        raise DeltamarkError("the words of a code are not sorted and distinct", words[:5], "sort them, once each")
    return Type("code", 0, 0, max(len(words) - 1, 0), words)


BOOL = Type("bool", 0, 0, 1, ("false", "true"))
TEXT = Type("text", 0, 0, 2**31 - 1)
SHORT = Type("short", 0, 0, LARGEST)


def stored_double(value: float) -> int:
    """Return the integer that stores a double: its bits, or the complement of the bits of its absolute value.

    So integers are ordered as doubles are. -0.0 is stored as 0.0, and every NaN as one number above infinity.

    >>> stored_double(-1.5) < stored_double(0.0) == stored_double(-0.0) < stored_double(math.inf) < NAN
    True
    """
    return int(stored_doubles(np.array([value], np.float64))[0])


def stored_doubles(values: np.ndarray) -> np.ndarray:
    """Return the integers that store an array of doubles."""
    bits = np.where(values == 0, 0.0, values).view(np.int64)
    return np.where(np.isnan(values), NAN, np.where(bits < 0, ~(bits & LARGEST), bits))


def doubles(stored: np.ndarray) -> np.ndarray:
    """Return the doubles that an array of integers stores."""
    return np.where(stored < 0, ~stored | NULL, stored).view(np.float64)


NAN = 0x7FF8 << 48
"""The integer that stores NaN, which is greater than all other doubles and equal to itself."""
INFINITY = 0x7FF0 << 48
"""The integer that stores infinity. Its complement stores the least double."""

DOUBLE = Type("double", 0, ~INFINITY, NAN)
TIME = Type("time", 0, 0, MICROSECONDS_PER_DAY - 1)
NAMED: Mapping[Kind, Type] = {"bool": BOOL, "text": TEXT, "short": SHORT, "double": DOUBLE, "time": TIME}
"""The types without parameters."""


def pack_short(text: str) -> int | None:
    """Pack a text of at most seven bytes; None if it is longer, and so equal to no short text."""
    raw = text.encode()
    return None if len(raw) > SHORT_BYTES else pack_bytes(raw)


def pack_bytes(raw: bytes) -> int:
    """Pack at most seven bytes, so that integers are ordered as bytes are."""
    return int.from_bytes(raw.ljust(SHORT_BYTES, b"\0"), "big") << 3 | len(raw)


def unpack_short(packed: int) -> str:
    return (packed >> 3).to_bytes(SHORT_BYTES, "big")[: packed & 7].decode()


Value: TypeAlias = "bool | int | float | Decimal | dt.date | dt.time | dt.timedelta | str | None"
"""A value as Python has it."""


def value_of(type_: Type, stored: int | str | None) -> Value:  # noqa: C901 (a case for each kind)
    """Return the value that a stored number, or the text of a text column, stands for; None for NULL.

    >>> value_of(integer(0, 999, scale=2), 950), value_of(date_type(0, 9), 1), value_of(BOOL.or_null(), NULL)
    (Decimal('9.50'), datetime.date(1970, 1, 2), None)
    """
    if stored is None or isinstance(stored, str):
        return stored
    number = int(stored)
    value: Value = number
    match type_.kind:
        case _ if number == NULL:
            value = None
        case "bool":
            value = bool(number)
        case "date" if FIRST_DAY <= number <= LAST_DAY:  # a day that Python lacks stays a number
            value = EPOCH + dt.timedelta(days=number)
        case "timestamp" | "timestamptz" if FIRST_DAY <= number // MICROSECONDS_PER_DAY <= LAST_DAY:
            moment = FIRST_MOMENT + dt.timedelta(microseconds=number)
            value = moment if type_.kind == "timestamp" else moment.replace(tzinfo=dt.UTC)
        case "interval":
            value = dt.timedelta(microseconds=number)
        case "time":
            value = (FIRST_MOMENT + dt.timedelta(microseconds=number)).time()
        case "code":
            value = type_.words[number]
        case "short":
            value = unpack_short(number)
        case "double":
            value = struct.unpack("d", struct.pack("q", ~number | NULL if number < 0 else number))[0]
        case "int" if type_.scale:
            value = Decimal(number).scaleb(-type_.scale)
    return value


def spanning(a: Type, b: Type) -> Type:
    """Return the type of the values of both types, which differ only in their bounds."""
    return replace(a, low=min(a.low, b.low), high=max(a.high, b.high), nullable=a.nullable or b.nullable)


def key_range(types: Iterable[Type]) -> list[tuple[int, int]]:
    """Return the low bound and the radix of each column of a packed key; NULL is one more value of a nullable one."""
    return [(type_.low - type_.nullable, type_.high - type_.low + 1 + type_.nullable) for type_ in types]


def key_count(types: Iterable[Type]) -> int:
    """Return the number of different keys of some types."""
    return math.prod(radix for _, radix in key_range(types))


_OURS = {
    int: "integer(low, high)",
    float: "DOUBLE, or decimal(low, high, scale=2) for exact numbers",
    Decimal: "decimal(low, high, scale=2)",
    str: "TEXT, SHORT (at most seven bytes) or code_type(words)",
    bool: "BOOL",
    dt.date: "date_type(low, high)",
    dt.datetime: "timestamp_type(low, high)",
    dt.time: "TIME",
}


@dataclass(frozen=True)
class Field:
    """A column of a schema."""

    name: str
    type: Type
    sql: str = ""
    """The type that a declaration in SQL gives the column, such as `SMALLINT`; empty if there is none."""

    def __post_init__(self) -> None:
        if not isinstance(self.type, Type):
            kind = self.type if isinstance(self.type, type) else type(self.type)
            others = "integer(...), decimal(...), date_type(...), code_type(...), DOUBLE, BOOL or TEXT"
            remedy = f"write {_OURS.get(kind, others)}"
            raise DeltamarkError("not the type of a column", f"{self.name}: {self.type!r}", remedy)


def nullable_texts(fields: Iterable[Field]) -> list[str]:
    """Return the names of the text columns that may be NULL."""
    return [field.name for field in fields if field.type.kind == "text" and field.type.nullable]


MAX_SHOWN = 60
"""Characters of a type in the `repr` of a schema."""


@dataclass(frozen=True, repr=False)
class Schema:
    """The columns of a collection, and a bound on the number of its live rows.

    >>> Schema((Field("shop", integer(1, 99)), Field("name", TEXT)), rows=99)
    Schema of at most 99 rows
      shop  integer(1, 99)
      name  TEXT
    """

    fields: tuple[Field, ...]
    rows: int
    """The largest number of live rows, counting multiplicity; weights have 64 bits, so no bound is larger."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", min(self.rows, LARGEST))

    def __repr__(self) -> str:
        return f"Schema of {self.described()}"

    def described(self) -> str:
        """Return the bound of rows, and a line for each column."""
        width = max((len(name) for name in self.names), default=0)
        shown = {field.name: repr(field.type) for field in self.fields}
        lines = [
            f"  {name:<{width}}  {text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + '...'}"
            for name, text in shown.items()
        ]
        return "\n".join([f"at most {self.rows} row{'' if self.rows == 1 else 's'}", *lines])

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> Field:
        """Return the column of a name."""
        if not isinstance(name, str):
            remedy = f"write 'name', or name=expression; the columns are {', '.join(self.names)}"
            raise DeltamarkError("not the name of a column", repr(name), remedy)
        for field in self.fields:
            if field.name == name:
                return field
        raise unknown("column", name, self.names)

    def __getitem__(self, name: str) -> Type:
        return self.field(name).type

    def __contains__(self, name: object) -> bool:
        return name in self.names
