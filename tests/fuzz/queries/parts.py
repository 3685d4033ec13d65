"""Texts of SQL as trees, of which a search for a smaller query leaves out and replaces parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

NUMBERS = ("int", "decimal", "double", "float")
SIMPLEST = {
    "int": ("0", "1"),
    "decimal": ("0.5",),
    "double": ("CAST(1 AS DOUBLE)",),
    "float": ("0.5::DOUBLE",),
    "wide": ("0.5::DOUBLE",),
    "date": ("DATE '1992-01-01'",),
    "moment": ("TIMESTAMP '1992-01-01 12:00:00'",),
    "zoned": ("TIMESTAMPTZ '1992-01-01 12:00:00+00'",),
    "text": ("''", "'a'"),
    "truth": ("TRUE", "FALSE"),
}
"""The literals that may replace a value of each sort."""


AGGREGATES = ("sum", "count", "avg", "min", "max", "median", "bit_", "bool_", "stddev", "var_")
"""The beginnings of the constructs of aggregates, whose arguments have no meaning outside of them."""


CLAUSES = ("WHERE", "ON", "HAVING", "FILTER (WHERE")
"""The beginnings of clauses that have a condition."""


@dataclass(frozen=True)
class Part:
    """A part of a query: its sort, its words and smaller parts in order, and the construct that it is an example of.

    A part of the sort `clause` may be left out. Of a part of the sort `list`, any member but the last may be left out.
    """

    sort: str
    pieces: tuple[str | Part, ...]
    construct: str = ""

    def __str__(self) -> str:
        return "".join(map(str, self.pieces))

    def parts(self) -> Iterator[tuple[int, Part]]:
        return ((at, piece) for at, piece in enumerate(self.pieces) if isinstance(piece, Part))

    def of_construct(self, construct: str) -> Iterator[Part]:
        """Yield the parts that are examples of a construct."""
        if self.construct == construct:
            yield self
        for _, part in self.parts():
            yield from part.of_construct(construct)

    def constructs(self) -> Counter[str]:
        found = Counter([self.construct] if self.construct else [])
        for _, part in self.parts():
            found += part.constructs()
        return found


def clause(*pieces: str | Part) -> Part:
    return Part("clause", pieces)


def listed(items: list[Part], between: str = ", ") -> Part:
    pieces: list[str | Part] = []
    for item in items:
        pieces += [between, item] if pieces else [item]
    return Part("list", tuple(pieces))


NOTHING = clause()


def placed(part: Part, clause: str = "") -> Iterator[tuple[Part, str]]:
    """Yield a part and all its parts, each with the clause that it stands in, of those that have conditions."""
    yield part, clause
    for _, inner in part.parts():
        yield from placed(inner, _clause_of(part) or clause)


def _clause_of(part: Part) -> str:
    first = part.pieces[0].strip() if part.pieces and isinstance(part.pieces[0], str) else ""
    return "SELECT" if part.sort == "query" else first if first in CLAUSES else ""


def without(part: Part, is_bad: Callable[[Part, str], bool], clause: str = "") -> Part | None:
    """Return a part with the nearest simple ones in the places of the bad ones, or None if there are none.

    is_bad: is called with a part and with the clause that it stands in.
    """
    pieces: list[str | Part] = []
    is_broken = False
    for piece in part.pieces:
        kept = piece if isinstance(piece, str) else without(piece, is_bad, _clause_of(part) or clause)
        is_broken |= kept is None
        pieces.append(piece if kept is None else kept)
    part = replace(part, pieces=tuple(pieces))
    if part.construct == "FILTER" and not pieces[0].construct.startswith(AGGREGATES):
        return pieces[0]
    if not is_broken and not is_bad(part, clause):
        return part
    has_rows = part.sort != "query" and any(each.sort == "query" for _, each in part.parts())
    is_whole = has_rows or part.sort == "table" or part.construct.startswith(AGGREGATES)
    inner = [] if is_broken or is_whole else _inner(part, part)
    candidates = (*((NOTHING,) if part.sort == "clause" else ()), *inner, *_literals(part.sort))
    return next((each for each in candidates if not is_bad(each, clause)), None)


def _literals(sort: str) -> list[Part]:
    construct = "literal condition" if sort == "truth" else "literal"
    return [Part(sort, (literal,), construct) for literal in SIMPLEST.get(sort, ())]


def simpler(whole: Part) -> Iterator[Part]:
    """Yield smaller texts: a part is left out, or replaced by a part of its own or a literal; large parts first."""
    level = [(whole, lambda part: part)]
    while level:
        below = []
        for part, put in level:
            yield from map(put, _smaller(part))
            below += [(inner, _putting(part, at, put)) for at, inner in part.parts()]
        level = below


def _putting(part: Part, at: int, put):
    return lambda inner: put(replace(part, pieces=(*part.pieces[:at], inner, *part.pieces[at + 1 :])))


def _smaller(part: Part) -> Iterator[Part]:
    if part.sort == "clause" and part.pieces:
        yield NOTHING
    if part.sort == "list" and len(part.pieces) > 1:
        for at in range(0, len(part.pieces), 2):
            left = (*part.pieces[:at], *part.pieces[at + 2 :]) if at else part.pieces[2:]
            yield replace(part, pieces=left if at + 2 < len(part.pieces) or not at else part.pieces[: at - 1])
    yield from _inner(part, part)
    for literal in SIMPLEST.get(part.sort, ()):
        if len(literal) < len(str(part)) or (part.construct == "column" and str(part) not in SIMPLEST[part.sort]):
            yield Part(part.sort, (literal,))


def _inner(part: Part, like: Part) -> Iterator[Part]:
    """Yield the nearest parts below a part that can stand in the place of another."""
    for _, inner in part.parts():
        if inner.sort == like.sort or (inner.sort in NUMBERS and like.sort in NUMBERS):
            yield inner
        else:
            yield from _inner(inner, like)
