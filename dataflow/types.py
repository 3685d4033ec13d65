"""Types of columns, with the bounds that the planner reasons with.

At run time every column is an array of int64 (of an input, dates and codes are int32):
int      a number times 10**scale; every value lies in low..high
date     days since 1970
code     an index into a sorted list of words, so that the order of codes is that of words
short    text of at most seven bytes, packed so that integer order is byte order
text     the number of a stored text; equal texts have one number (of an input: offsets and bytes)
bool     a condition; never stored
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from deltamark.errors import DeltamarkError, unknown

Kind = Literal["int", "date", "code", "short", "text", "bool"]

LARGEST = 2**63 - 1
NULL = -(2**63)
"""How a missing value of a left join is stored: below every bound."""

LAST_TIME = 2**62 - 2
"""The last logical time: kernels mark what never comes by 2**62, and compare with one more than a time."""

SHORT_BYTES = 7


@dataclass(frozen=True)
class Type:
    kind: Kind
    scale: int = 0
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()
    nullable: bool = False

    def __str__(self) -> str:
        name = f"decimal({self.scale})" if self.kind == "int" and self.scale else self.kind
        return f"{name}?" if self.nullable else name

    @property
    def comparable(self) -> tuple[Kind, tuple[str, ...]]:
        """What two types share if their values can be compared, joined or concatenated (numbers: once aligned)."""
        return self.kind, self.words

    @property
    def width(self) -> int:
        """Bytes of a value in the columns of an input."""
        return 4 if self.kind == "text" or (self.kind in ("date", "code") and not self.nullable) else 8

    def or_null(self) -> Type:
        return replace(self, nullable=True)


BOOL = Type("bool", 0, 0, 1)


def integer(low: int, high: int, scale: int = 0) -> Type:
    """Return the type of numbers in low..high, refusing what 64 bits do not hold."""
    if not -LARGEST <= low <= high <= LARGEST:
        raise DeltamarkError(
            "a value may not fit in 64 bits", f"{low}..{high}", "narrow the bounds of the columns that it comes from"
        )
    return Type("int", scale, low, high)


def date_type(low: int, high: int) -> Type:
    return Type("date", 0, low, high)


def code_type(words: tuple[str, ...]) -> Type:
    if list(words) != sorted(set(words)):
        raise DeltamarkError("the words of a code are not sorted and distinct", words[:5], "sort them, once each")
    return Type("code", 0, 0, max(len(words) - 1, 0), words)


TEXT = Type("text", 0, 0, 2**31 - 1)
SHORT = Type("short", 0, 0, LARGEST)


def pack_short(text: str) -> int | None:
    """Pack a text of at most seven bytes; None where it is longer, and so equal to no short text."""
    raw = text.encode()
    if len(raw) > SHORT_BYTES:
        return None
    return int.from_bytes(raw.ljust(SHORT_BYTES, b"\0"), "big") << 3 | len(raw)


def unpack_short(packed: int) -> str:
    return (packed >> 3).to_bytes(SHORT_BYTES, "big")[: packed & 7].decode()


def spanning(a: Type, b: Type) -> Type:
    """Return the type that has the values of two, which are alike but for their bounds."""
    return replace(a, low=min(a.low, b.low), high=max(a.high, b.high))


@dataclass(frozen=True)
class Field:
    name: str
    type: Type


def nullable_texts(fields: Iterable[Field]) -> list[str]:
    """Return the names of those columns that are texts and may be NULL."""
    return [field.name for field in fields if field.type.kind == "text" and field.type.nullable]


@dataclass(frozen=True)
class Schema:
    fields: tuple[Field, ...]
    rows: int
    """No more rows (counting multiplicity) are ever live; no bound is beyond 64 bits, which weights have."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", min(self.rows, LARGEST))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def __getitem__(self, name: str) -> Type:
        for field in self.fields:
            if field.name == name:
                return field.type
        raise unknown("column", name, self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names
