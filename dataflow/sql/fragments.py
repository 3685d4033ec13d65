"""The expressions of a text, as DuckDB's syntax tree of it has them."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from deltamark.dataflow.sql import front_end
from deltamark.errors import MAX_QUOTED

Json = Mapping[str, Any]

UNKNOWN_OFFSET = 2**64 - 1
"""DuckDB's offset of an expression that it made itself."""

MAX_JSON_LEVELS = 10_000
"""The levels of nested JSON that are parsed, which take at most 4 of the 8 MB of a stack."""

CALL = re.compile(r'("[^"]+"|[^\W\d]\w*(\s*\.\s*\w+)*)\s*\(')
CALLS = ("FUNCTION", "WINDOW")
SYMBOL = re.compile(r"\W+")


@dataclass(frozen=True, eq=False)
class Fragment:
    """An expression in a text.

    place: the offset in bytes that stands for it; start, stop: those of its beginning and its end; node: its part of
    DuckDB's syntax tree; columns: those that it reads, without their tables; parts: the expressions in it; made_of: the
    words of the expression by which DuckDB replaces it, if it calls a macro.
    """

    text: bytes
    place: int
    start: int
    stop: int
    node: Json = field(default_factory=dict)
    columns: frozenset[str] = frozenset()
    parts: tuple[Fragment, ...] = ()
    made_of: frozenset[str] = frozenset()

    @property
    def is_macro(self) -> bool:
        """Whether DuckDB replaces the call of a function by an expression of others."""
        return bool(self.made_of)

    @property
    def kind(self) -> str:
        """The class in the syntax tree, such as FUNCTION."""
        return str(self.node.get("class", ""))

    @property
    def length(self) -> int:
        """DuckDB's length of the expression, which may leave out a left operand."""
        return int(self.node["query_location_length"])

    @property
    def function(self) -> str:
        """The function that the expression calls, if it calls one."""
        return str(self.node.get("function_name", "")).lower()

    def covers(self, other: Fragment) -> bool:
        return self.start <= other.start and other.stop <= self.stop

    @property
    def where(self) -> str:
        """The line and the column, in characters."""
        before = self.text[: self.place].decode(errors="ignore")
        return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"

    @property
    def name(self) -> str:
        """The function or the operator as the text has it, or else the whole expression."""
        written = " ".join(self.text[self.start : self.stop].decode(errors="ignore").split())
        return self._call or self._symbol or (written if len(written) <= MAX_QUOTED else f"{written[:MAX_QUOTED]}...")

    @property
    def operation(self) -> str:
        """The name, and what it is the name of."""
        if self._call or self._symbol:
            return f"the {'function' if self._call else 'operator'} {self.name}"
        return self.name

    @property
    def _call(self) -> str:
        """The name of a function that is called with its arguments in parentheses."""
        found = CALL.match(self.text[self.place : self.stop].decode(errors="ignore"))
        return found[1] if found and self.kind in CALLS and all(each.start > self.place for each in self.parts) else ""

    @property
    def _symbol(self) -> str:
        written = self.text[self.start : self.stop].decode(errors="ignore")
        return self.function if SYMBOL.fullmatch(self.function) and self.function in written else ""


def fragments_of(text: str) -> list[Fragment]:
    """Return the expressions of a text, each before those in it."""
    with front_end.connect() as connection:
        rows = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()
    nodes, encoded = list(_expressions(parsed(rows[0][0]))), text.encode()
    parts: list[list[Fragment]] = [[] for _ in nodes]
    made: list[Fragment] = []
    for at in reversed(range(len(nodes))):
        node, outer = nodes[at]
        made.append(_fragment(encoded, node, parts[at][::-1]))
        if outer is not None:
            parts[outer].append(made[-1])
    return made[::-1]


def _fragment(text: bytes, node: Json, parts: Sequence[Fragment]) -> Fragment:
    place, length = node["query_location"], node["query_location_length"]
    columns = {name for each in parts for name in each.columns}
    if node["class"] == "COLUMN_REF":
        columns.add(node["column_names"][-1].lower())
    start = min([place, *(each.start for each in parts)])
    stop = max([place + length, *(each.stop for each in parts)])
    made_of = _macros().get(str(node.get("function_name", "")).lower(), frozenset())
    return Fragment(text, place, start, stop, node, frozenset(columns), tuple(parts), made_of)


MACROS = "SELECT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"


@cache
def _macros() -> Mapping[str, frozenset[str]]:
    """Return the words of the definition of each macro, and of those of the macros that it calls."""
    words: dict[str, set[str]] = defaultdict(set)
    with front_end.connect() as connection:
        for name, definition in connection.execute(MACROS).fetchall():
            words[name] |= set(re.findall(r"\w+", definition.lower()))
    for own in words.values():
        remaining = own & words.keys()
        while remaining:
            more = words[remaining.pop()] - own
            own.update(more)
            remaining |= more & words.keys()
    return {name: frozenset(own) for name, own in words.items()}


def _expressions(tree: Json) -> Iterator[tuple[Json, int | None]]:
    """Yield the expressions of a syntax tree that have a place, and the number of the expression around each."""
    remaining: list[tuple[object, int | None]] = [(tree, None)]
    number = 0
    while remaining:
        each, outer = remaining.pop()
        if isinstance(each, Mapping):
            if "class" in each and each.get("query_location", UNKNOWN_OFFSET) != UNKNOWN_OFFSET:
                yield each, outer
                outer, number = number, number + 1
            remaining += [(child, outer) for child in reversed(list(each.values()))]
        elif isinstance(each, list):
            remaining += [(child, outer) for child in reversed(each)]


def objects(node: object) -> Iterator[Json]:
    """Yield all objects of JSON, which may be nested deeply."""
    remaining = [node]
    while remaining:
        each = remaining.pop()
        if isinstance(each, Mapping):
            yield each
            remaining += each.values()
        elif isinstance(each, list):
            remaining += each


def parsed(serialized: str) -> Json:
    """Parse an object of JSON that may be nested deeply: DuckDB nests an OR of n conditions on a scan in 2 n levels."""
    with _deep_recursion():
        found: Json = json.loads(serialized)
        return found


@contextmanager
def _deep_recursion() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, MAX_JSON_LEVELS))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def references(node: object) -> Iterator[int]:
    """Yield the number of each common table expression that is read, once for each reference."""
    for each in objects(node):
        if each.get("type") == "LOGICAL_CTE_REF":
            yield each["cte_index"]


MORE_THAN_ONE_ROW = "More than one row returned by a subquery"
"""How the error begins that DuckDB's plan raises for a scalar subquery of several rows."""


def raises_for_several_rows(node: Json) -> bool:
    """Return whether an expression is DuckDB's error for a scalar subquery of several rows."""
    if not node.get("qname") or node["qname"]["path"][-1] != "error":
        return False
    (message,) = node["children"]
    return str(message.get("value", {}).get("value", "")).startswith(MORE_THAN_ONE_ROW)


def scalar_subqueries(plan: Json) -> Iterator[Json | None]:
    """Yield the aggregate of the first value and of the number of rows that such an error reads, or None if unknown."""
    nodes = list(objects(plan))
    ctes = {each["table_index"]: each for each in nodes if each.get("type") == "LOGICAL_MATERIALIZED_CTE"}
    for node in nodes:
        if node.get("type") == "LOGICAL_PROJECTION":
            for each in node["expressions"]:
                if any(map(raises_for_several_rows, objects(each))):
                    yield from [*_first_values(each, node["children"][0], ctes)] or (None,)


def _first_values(expression: Json, node: Json, ctes: Mapping[int, Json]) -> Iterator[Json]:
    """Yield the aggregates of a first value and of a number of rows from which an expression over a node is made."""
    for reference in objects(expression):
        if reference.get("type") == "BOUND_REF":
            below, at = _made(node, reference["index"], ctes)
            if below["type"] == "LOGICAL_PROJECTION":
                yield from _first_values(below["expressions"][at], below["children"][0], ctes)
            elif _functions(below) == {"first", "count_star"}:
                yield below


def _functions(node: Json) -> set[str]:
    """Return the functions of an aggregate. Other nodes have none."""
    is_aggregate = node["type"] == "LOGICAL_AGGREGATE_AND_GROUP_BY"
    return {each["qname"]["path"][-1] for each in node["expressions"]} if is_aggregate else set()


def _made(node: Json, column: int, ctes: Mapping[int, Json]) -> tuple[Json, int]:
    """Return the node below, or the same, that computes a column of a node, and the number that it has there."""
    match node["type"]:
        case "LOGICAL_FILTER":
            return _made(node["children"][0], (node["projection_map"] or range(column + 1))[column], ctes)
        case "LOGICAL_CTE_REF" if node["cte_index"] in ctes:
            return _made(ctes[node["cte_index"]]["children"][0], column, ctes)
        case "LOGICAL_CROSS_PRODUCT":
            left, right = node["children"]
            wide = _width(left)
            return _made(left, column, ctes) if column < wide else _made(right, column - wide, ctes)
    return node, column


def _width(node: Json) -> int:
    """Return the number of columns of an input of a cross product."""
    match node["type"]:
        case "LOGICAL_FILTER" if node["projection_map"]:
            return len(node["projection_map"])
        case "LOGICAL_CTE_REF":
            return len(node["bound_columns"])
        case "LOGICAL_GET":
            return len(node["projection_ids"] or node["column_indexes"])
        case "LOGICAL_AGGREGATE_AND_GROUP_BY":
            return len(node["groups"]) + len(node["expressions"]) + len(node.get("grouping_functions") or ())
        case "LOGICAL_PROJECTION" | "LOGICAL_EXPRESSION_GET":
            return len(node["expressions"])
    return sum(map(_width, node["children"]))
