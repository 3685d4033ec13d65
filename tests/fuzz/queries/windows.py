"""Random functions over windows, whose values SQL determines: what depends on ties is ordered by all columns."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.queries import conditions, values
from fuzz.queries.parts import NOTHING, Part, clause, listed
from fuzz.queries.writer import Named, Scope, Writer

DIRECTIONS = ("", " DESC", " NULLS FIRST", " DESC NULLS LAST")
FRAMES = (
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "ROWS 2 PRECEDING", "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "ROWS UNBOUNDED PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
)  # fmt: skip
GROWING = (
    "", "ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING", "GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
)  # fmt: skip
"""Frames that begin with the partition."""
RANGES = (
    "", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "RANGE CURRENT ROW",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
)  # fmt: skip
OFFSETS = (
    "RANGE 1 PRECEDING",
    "RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    "RANGE BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
)
DAYS = (
    "RANGE INTERVAL 1 DAY PRECEDING",
    "RANGE BETWEEN INTERVAL 31 DAY PRECEDING AND INTERVAL 1 DAY FOLLOWING",
    "RANGE BETWEEN INTERVAL 1 DAY FOLLOWING AND INTERVAL 60 DAY FOLLOWING",
)
"""Frames of values: their ends have distances from the value of the row."""
OF_PARTITIONS = ("quantile_disc({0}, 0.3)", "arg_max({0}, {0})", "arg_min({0}, {0})", "any_value({0} ORDER BY {0})")
"""Aggregates of whole partitions, which have no frames."""
EXCLUSIONS = ("", "", "", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES")
SORTS = ("int", "decimal", "double", "date", "text", "truth", "float", "moment", "zoned")


def can_be_drawn(sort: str, scope: Scope) -> bool:
    """Return whether rows have columns that determine their order, and values of a sort."""
    columns = [each for each in scope.columns if each.sort != "double"]
    has_values = sort in ("int", "double") or any(each.sort == sort for each in columns)
    return sort in SORTS and has_values and 0 < len(columns) == len(scope.columns) < 9


def call(w: Writer, sort: str, scope: Scope) -> Part:
    """Draw a function over a window."""
    if sort == "double" and w.chance(30):
        name = w.pick(["percent_rank()", "cume_dist()"])
        return Part("double", (f"{name} OVER (", _window(w, scope, whole=False), ")"), f"{name} OVER")
    if w.chance(15) and (columns := scope.of("int" if sort == "double" else sort)):
        aggregate = "median({0})" if sort == "double" else w.pick(OF_PARTITIONS)
        construct = f"{aggregate.partition('(')[0]} of a partition"
        return Part(sort, (aggregate.format(w.pick(columns)), " OVER (", _partition(w, scope), ")"), construct)
    kinds = ["picked", "summary"] if sort != "text" else ["picked"]
    kind = w.pick([*kinds, "place"]) if sort == "int" else "summary" if sort == "double" else w.pick(kinds)
    if kind == "place":
        name = w.pick(["row_number()", "rank()", "dense_rank()", "ntile(3)"])
        window = _window(w, scope, whole=name in ("row_number()", "ntile(3)"))
        return Part("int", (f"{name} OVER (", window, ")"), f"{name} OVER")
    if kind == "picked":
        return _picked(w, sort, scope)
    of = w.pick(["int", "decimal", "float"]) if sort == "double" else sort
    numbers = ["sum", "min", "max"]
    names = {"double": ["avg"], "int": [*numbers, "count"], "decimal": numbers, "float": numbers}
    name = w.pick(names.get(sort, ["min", "max"]))
    argument = values.leaf(w, of, scope.flat())
    filtered = NOTHING
    if w.chance(15):
        filtered = clause(" FILTER (WHERE ", conditions.condition(w, scope.flat(), 1), ")")
    if name in ("sum", "avg", "count") and w.chance(45):
        window = Part("window", (_window(w, scope, whole=True), f" {w.pick(GROWING)}"))
        pieces = (f"{name}(DISTINCT ", argument, ")", filtered, " OVER (", window, ")")
        return Part(sort, pieces, f"{name}(DISTINCT) OVER")
    return Part(sort, (f"{name}(", argument, ")", filtered, " OVER (", framed(w, scope), ")"), f"{name} OVER")


def over_groups(w: Writer, keys: Sequence[Named], rows: Scope) -> Part:
    """Draw a function over a window of grouped rows. keys: the columns of the groups."""
    partition = clause("PARTITION BY ", w.pick(keys).text) if keys and w.chance(60) else NOTHING
    if w.chance(40):
        order = clause(" ORDER BY ", values.aggregate(w, "int", rows), w.pick(DIRECTIONS))
        return Part("int", ("rank() OVER (", partition, order, ")"), "rank OVER groups")
    name = w.pick(["sum", "max", "count"])
    return Part(
        "int", (f"{name}(", values.aggregate(w, "int", rows), ") OVER (", partition, ")"), f"{name} OVER groups"
    )


def limit(w: Writer, scope: Scope) -> Part:
    """Draw a QUALIFY that keeps the first rows of groups."""
    name = w.pick(["row_number", "rank", "dense_rank"])
    sign = w.pick(["<=", "<=", "<", "=", ">"])
    window = _window(w, scope, whole=name == "row_number")
    return Part("clause", (f" QUALIFY {name}() OVER (", window, f") {sign} {w.pick([1, 2, 3])}"), "QUALIFY")


def _picked(w: Writer, sort: str, scope: Scope) -> Part:
    value = w.pick(scope.of(sort) or [each.text for each in scope.columns if each.sort == "int"] or ["1"])
    nulls = w.pick(["", "", " IGNORE NULLS"])
    window = _window(w, scope, whole=True)
    if w.chance(40):
        name, offset = w.pick(["lag", "lead"]), w.pick(["", ", 1", ", 2"]) if not nulls else ""
        default = w.pick(["", f", {value}"]) if offset else ""
        return Part(sort, (f"{name}({value}{offset}{default}{nulls}) OVER (", window, ")"), f"{name} OVER")
    name, place = w.pick([("first_value", ""), ("last_value", ""), ("nth_value", ", 2"), ("nth_value", ", 3")])
    frame = w.pick([*FRAMES, *RANGES[:1]])
    return Part(sort, (f"{name}({value}{place}{nulls}) OVER (", window, f" {frame})"), f"{name} OVER")


def framed(w: Writer, scope: Scope) -> Part:
    """Draw a window with a frame."""
    numbers = [each for each in scope.columns if each.sort in ("int", "decimal", "date")]
    if numbers and w.chance(25):
        by = w.pick(numbers)
        offsets = w.pick(DAYS if by.sort == "date" else OFFSETS)
        order = f" ORDER BY {by.text}{w.pick(DIRECTIONS)} {offsets}{w.pick(EXCLUSIONS)}"
        return Part("window", (_partition(w, scope), order), "RANGE of offsets")
    if w.chance(50):
        frame = f" {w.pick(FRAMES)}{w.pick(EXCLUSIONS)}"
        return Part("window", (_window(w, scope, whole=True), frame), "ROWS")
    if w.chance(40):
        return Part("window", (_partition(w, scope),), "whole partition")
    frame = w.pick(RANGES)
    exclusion = w.pick(EXCLUSIONS) if frame else ""
    return Part("window", (_window(w, scope, whole=False), f" {frame}{exclusion}"), "RANGE")


def _window(w: Writer, scope: Scope, *, whole: bool) -> Part:
    """Draw a partition and an order. whole: whether only equal rows are tied."""
    columns = w.choices.shuffled([each.text for each in scope.columns])
    kept = columns if whole else columns[: w.pick([1, 2])]
    orders = listed([Part("order", (f"{each}{w.pick(DIRECTIONS)}",)) for each in kept])
    return Part("window", (_partition(w, scope), " ORDER BY ", orders))


def _partition(w: Writer, scope: Scope) -> Part:
    columns = w.choices.picks([each.text for each in scope.columns], most=2)
    return clause("PARTITION BY ", ", ".join(columns)) if columns else NOTHING
