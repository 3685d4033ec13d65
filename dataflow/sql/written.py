"""The expressions of a text by their places, to name them in errors as the text does.

DuckDB's plans give the offsets of many expressions, but not of all. They have no macros: in the plan, split_part is an
expression of other functions, whose offsets count from the beginning of the macro's own text. So errors look up places
and names in the syntax tree of the text, which is made when the first error asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from deltamark.dataflow.sql.fragments import CALLS, Fragment, Json, fragments_of, objects

NO_CODE = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$", re.DOTALL)
"""Literals, quoted names and comments."""

KINDS = {"a parameter": "PARAMETER"}
"""Constructs by their classes in DuckDB's syntax tree."""

WORDS = {
    "a LIMIT that is no constant": r"\blimit\b",
    "an OFFSET that is no constant": r"\boffset\b",
    "ASOF JOIN": r"\basof\b",
    "COLLATE": r"\bcollate\b",
    "POSITIONAL JOIN": r"\bpositional\b",
    "TABLESAMPLE": r"\bsample\b|\btablesample\b",
    "UNNEST": r"\bunnest\b",
    "UNPIVOT": r"\bunpivot\b",
    "WITH RECURSIVE": r"\brecursive\b",
}
"""Patterns of the words of constructs for which DuckDB's syntax tree has no place."""

MADE_OF = {"sum": ("avg", "mean"), "count": ("avg", "mean")}
"""Functions into which DuckDB divides others that have no groups."""


class Place:
    """Where a construct stands: in one fragment of a text, in several that are alike, or at no known place."""

    def __init__(
        self, find: Callable[[], Iterable[Fragment]], find_exact: Callable[[], Fragment | None] = lambda: None
    ) -> None:
        self._find, self._find_exact = find, find_exact

    @cached_property
    def exact(self) -> Fragment | None:
        """The fragment that the construct is, or the call of the macro from which DuckDB made it, if one is known."""
        return self._find_exact()

    @cached_property
    def fragments(self) -> Sequence[Fragment]:
        """The fragment, or those of which the construct is one, or the nearest one around it or in it."""
        return (self.exact,) if self.exact is not None else tuple(self._find())


class Written:
    """A text, and the places of its constructs."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._bytes = text.encode()

    @cached_property
    def code(self) -> str:
        """The text with blanks instead of literals, quoted names and comments."""
        return NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), self.text)

    def at(self, offset: int) -> Place:
        """Return the place of an offset in bytes."""
        return Place(lambda: [Fragment(self._bytes, offset, offset, offset)])

    def words(self, pattern: str) -> Place:
        """Return the places of words, outside of literals and comments."""

        def find() -> Iterator[Fragment]:
            for found in re.finditer(pattern, self.code, re.IGNORECASE):
                start, stop = (len(self.text[:at].encode()) for at in found.span())
                yield Fragment(self._bytes, start, start, stop)

        return Place(find)

    def longest_condition(self) -> Place:
        """Return the place of the AND or OR of the most conditions."""

        def find() -> Sequence[Fragment]:
            found = [each for each in self._fragments if each.kind == "CONJUNCTION"]
            return sorted(found, key=lambda each: len(each.parts))[-1:]

        return Place(find)

    def construct(self, names: Sequence[str]) -> tuple[str, Place]:
        """Return the first of some constructs that the text has, and its places."""
        first, *others = [(name, self._construct(name)) for name in names]
        if not others:
            return first
        found = (each for each in (first, *others) if each[1].fragments)
        return next(found, None) or self._macro(names[0]) or first

    def table_function(self, name: str) -> tuple[str, Place]:
        """Return the name of a table function, or the macro that calls it, in words, and its places."""
        return self._macro(name) or (f"the table function {name}", self.words(rf"\b{re.escape(name)}\s*\("))

    def _macro(self, name: str) -> tuple[str, Place] | None:
        """Return the call of a macro that has a function or a construct, in words, and its place; None without one."""
        found = next((each for each in self._fragments if name.lower() in each.made_of), None)
        return None if found is None else (found.operation, Place(lambda: [found]))

    def _construct(self, name: str) -> Place:
        if name in KINDS:
            return Place(lambda: (each for each in self._fragments if each.kind == KINDS[name]))
        return self.words(WORDS[name])

    def expression(self, node: Json, around: Place | None = None) -> Place:
        """Return the place of an expression of a plan. around: that of the expression of which it is a part."""

        def find_exact() -> Fragment | None:
            exact, outer = self._at_offset(node), around and around.exact
            if outer and outer.is_macro:
                return exact if exact and any(each.covers(exact) for each in outer.parts) else outer
            alike = [exact] if exact else self._alike(node)
            return alike[0] if len(alike) == 1 else None

        def find() -> Sequence[Fragment]:
            return self._alike(node) or self._around(node)[:1] or (around.fragments if around else ())

        return Place(find, find_exact)

    def _at_offset(self, node: Json) -> Fragment | None:
        """Return the expression with the offset and the length that a plan gives."""
        return self._by_offset.get((node.get("query_location"), node.get("query_location_length")))

    def _around(self, node: Json) -> Sequence[Fragment]:
        """Return the expressions around all parts of a node whose offsets are known, the smallest one first."""
        parts = [part for part in map(self._at_offset, objects(node)) if part is not None]
        found = [each for each in self._fragments if parts and all(map(each.covers, parts))]
        return sorted(found, key=lambda each: each.stop - each.start)

    def _alike(self, node: Json) -> Sequence[Fragment]:
        """Return the expressions that a node of a plan may be: they read the same columns, and do the same.

        If the offsets of parts are known, it is the smallest one around them.
        """
        if node.get("expression_class") == "BOUND_CONSTANT":
            return self._computed_constants if len(self._computed_constants) == 1 else ()
        columns, around = frozenset(_columns(node)), self._around(node)
        same = [each for each in around or self._fragments if "" in columns or each.columns == columns]
        if node["type"].startswith("COMPARE_"):
            found = [each for each in same if each.kind in ("COMPARISON", "BETWEEN")]
        else:
            function = function_of(node)
            kind = "WINDOW" if node["expression_class"] == "BOUND_WINDOW" else "FUNCTION"
            calls = [each for each in same if each.kind == kind]
            named = [each for each in calls if each.function == function]
            made = [each for each in calls if each.is_macro or each.function in MADE_OF.get(function, ())]
            found = named or made or [each for each in self._fragments if function in each.made_of]
        return found[:1] if around else found

    @cached_property
    def _computed_constants(self) -> Sequence[Fragment]:
        """The expressions that read no columns, without those in others of them."""
        kinds = (*CALLS, "CAST", "OPERATOR")
        found = [each for each in self._fragments if each.kind in kinds and not each.columns]
        return [each for each in found if not any(other is not each and other.covers(each) for other in found)]

    @cached_property
    def _by_offset(self) -> Mapping[tuple[object, object], Fragment]:
        """The expressions by their offset and length, those around others first."""
        return {(each.place, each.length): each for each in reversed(self._fragments)}

    @cached_property
    def _fragments(self) -> Sequence[Fragment]:
        return fragments_of(self.text)


def function_of(node: Json) -> str:
    """Return the name of the function that an expression of a plan calls; an empty text if it calls none."""
    if node.get("qname"):
        return str(node["qname"]["path"][-1]).lower()
    if node.get("expression_class") != "BOUND_WINDOW":
        return ""
    name = str(node["type"]).removeprefix("WINDOW_").lower()
    return "dense_rank" if name == "rank_dense" else name


def _columns(node: object) -> Iterator[str]:
    """Yield the names of the columns that an expression of a plan reads; an empty one for a column without a name."""
    for each in objects(node):
        if each.get("expression_class") == "BOUND_REF":
            yield str(each.get("alias", "")).lower()
