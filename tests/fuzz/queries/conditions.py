"""Random conditions, with the three-valued logic of SQL."""

from __future__ import annotations

from fuzz.queries import subqueries, values
from fuzz.queries.parts import Part, listed
from fuzz.queries.writer import Make, Scope, Writer

SORTS = {"int": 5, "decimal": 2, "text": 2, "date": 2, "truth": 1, "float": 2, "wide": 1, "moment": 2, "zoned": 2}
SIGNS = {"=": 5, "<": 3, ">": 2, "<=": 2, ">=": 2, "<>": 3}
PATTERNS = ("'a%'", "'%long%'", "'_'", "'%b'", "'a_'", "''", "'%'", "'B\\_%' ESCAPE '\\'", "'%a%t%'", "'é_%'")
EXPRESSIONS = ("'a.*t'", "'^[ab]'", "'(long|ant)$'", "'é.'", "'[^a-c]+ ?b?'", "''")
"""Regular expressions."""


def condition(w: Writer, scope: Scope, depth: int) -> Part:
    """Draw a condition."""
    if scope.nest > 0 and w.chance(30):
        return subqueries.condition(w, scope)
    if depth > 0 and w.chance(35):
        return w.pick(CONNECTIVES)(w, scope, depth - 1)
    if scope.of("truth") and w.chance(10):
        return Part("truth", (w.pick(scope.of("truth")),), "boolean column")
    return w.weighted(TESTS)(w, scope, min(depth, 1))


def operands(w: Writer, scope: Scope, depth: int, number: int) -> tuple[str, list[Part]]:
    """Draw a sort for which there is a column, and expressions of it, the first of which has a column if possible."""
    known = {sort: weight for sort, weight in SORTS.items() if scope.of(sort)} or {"int": 1}
    sort = w.weighted(known)
    own = scope.of(sort)
    first = Part(sort, (w.pick(own),), "column") if own and w.chance(60) else values.value(w, sort, scope, depth)
    return sort, [first, *(values.value(w, sort, scope, depth) for _ in range(number - 1))]


def comparison(w: Writer, scope: Scope, depth: int) -> Part:
    _, (one, other) = operands(w, scope, depth, 2)
    sign = w.weighted(SIGNS)
    return Part("truth", ("(", one, f" {sign} ", other, ")"), sign)


def _mixed(w: Writer, scope: Scope, depth: int) -> Part:
    """Compare an integer with a decimal."""
    one, other = values.value(w, "int", scope, depth), values.value(w, "decimal", scope, depth)
    return Part("truth", ("(", one, f" {w.weighted(SIGNS)} ", other, ")"), "int compared with decimal")


def _quotient(w: Writer, scope: Scope, depth: int) -> Part:  # noqa: ARG001 (no deep quotients: doubles are rounded)
    one, other = values.leaf(w, "double", scope), values.leaf(w, "int", Scope(scope.columns))
    return Part("truth", ("(", one, f" {w.pick('<>')} ", other, ")"), "quotient compared")


def _distinct(w: Writer, scope: Scope, depth: int) -> Part:
    _, (one, other) = operands(w, scope, depth, 2)
    no = w.pick(["", "NOT "])
    return Part("truth", ("(", one, f" IS {no}DISTINCT FROM ", other, ")"), f"IS {no}DISTINCT FROM")


def _between(w: Writer, scope: Scope, depth: int) -> Part:
    _, (one, low, high) = operands(w, scope, depth, 3)
    no = w.pick(["", "", "NOT "])
    return Part("truth", ("(", one, f" {no}BETWEEN ", low, " AND ", high, ")"), f"{no}BETWEEN")


def _two_bounds(w: Writer, scope: Scope, depth: int) -> Part:
    """Compare the same expression with a lower and an upper bound, of which DuckDB makes one condition."""
    _, (one, low, high) = operands(w, scope, depth, 3)
    signs = w.pick([">", ">="]), w.pick(["<", "<="])
    return Part("truth", ("(", one, f" {signs[0]} ", low, " AND ", one, f" {signs[1]} ", high, ")"), "two bounds")


def _in_list(w: Writer, scope: Scope, depth: int) -> Part:
    sort, (one,) = operands(w, scope, depth, 1)
    no = w.pick(["", "NOT "])
    listing = [Part(sort, (w.pick(values.LITERALS[sort]),)) for _ in range(w.pick([2, 1, 3]))]
    if w.chance(15):
        listing.append(Part("null", ("NULL",), "NULL in a list"))
    if w.chance(15):
        listing.append(values.leaf(w, sort, scope))
    return Part("truth", ("(", one, f" {no}IN (", listed(listing), "))"), f"{no}IN list")


def _of_rows(w: Writer, scope: Scope, depth: int) -> Part:
    """Compare two values with two others, as one row with another."""
    pairs = [operands(w, scope, min(depth, 1), 2)[1] for _ in range(2)]
    one, other = (listed([pair[at] for pair in pairs]) for at in range(2))
    sign = w.pick([*SIGNS, "IN", "NOT IN", "IS DISTINCT FROM"])
    if sign.endswith("IN"):
        return Part("truth", ("((", one, f") {sign} ((", other, "), (", other, ")))"), f"{sign} list of rows")
    return Part("truth", ("((", one, f") {sign} (", other, "))"), f"rows compared by {sign}")


def _like(w: Writer, scope: Scope, depth: int) -> Part:
    like = w.pick(["LIKE", "LIKE", "ILIKE"])
    sign = w.pick([like, like, f"NOT {like}"])
    return Part("truth", ("(", values.value(w, "text", scope, depth), f" {sign} {w.pick(PATTERNS)})"), sign)


def _like_a_value(w: Writer, scope: Scope, depth: int) -> Part:
    one, other = values.value(w, "text", scope, depth), values.leaf(w, "text", scope)
    return Part("truth", ("(", one, " LIKE ", other, ")"), "LIKE a value")


def _has_piece(w: Writer, scope: Scope, depth: int) -> Part:
    name = w.pick(["starts_with", "ends_with", "contains"])
    piece = w.pick(["'a'", "'_'", "'long%'", "''"])
    return Part("truth", (f"{name}(", values.value(w, "text", scope, depth), f", {piece})"), name)


def _matches(w: Writer, scope: Scope, depth: int) -> Part:
    text, pattern = values.value(w, "text", scope, depth), w.pick(EXPRESSIONS)
    if w.chance(40):
        return Part("truth", ("regexp_matches(", text, f", {pattern})"), "regexp_matches")
    sign = w.pick(["~", "SIMILAR TO", "NOT SIMILAR TO"])
    return Part("truth", ("(", text, f" {sign} {pattern})"), sign)


def _is_null(w: Writer, scope: Scope, depth: int) -> Part:
    _, (one,) = operands(w, scope, depth, 1)
    no = w.pick(["", "NOT "])
    return Part("truth", ("(", one, f" IS {no}NULL)"), f"IS {no}NULL")


def _is_true(w: Writer, scope: Scope, depth: int) -> Part:
    what = w.pick(["TRUE", "NOT TRUE", "FALSE", "NULL", "NOT FALSE"])
    return Part("truth", ("(", condition(w, scope, depth), f" IS {what})"), f"condition IS {what}")


def _cast(w: Writer, scope: Scope, depth: int) -> Part:
    return Part("truth", ("CAST(", values.value(w, "int", scope, depth), " AS BOOLEAN)"), "CAST AS BOOLEAN")


def _literal(w: Writer, scope: Scope, depth: int) -> Part:  # noqa: ARG001
    return Part("truth", (w.pick(values.LITERALS["truth"]),), "literal condition")


def _interval(w: Writer, scope: Scope, depth: int) -> Part:
    one, other = (values.value(w, "date", scope, depth) for _ in range(2))
    interval = f"INTERVAL {w.pick(['1 DAY', '1 MONTH', '2 YEAR'])}"
    pieces = ("(", one, f" {w.weighted(SIGNS)} ", other, f" {w.pick('+-')} {interval})")
    return Part("truth", pieces, "date compared with date +- INTERVAL")


def _both(sign: str) -> Make:
    def make(w: Writer, scope: Scope, depth: int) -> Part:
        one, other = condition(w, scope, depth), condition(w, scope, depth)
        return Part("truth", ("(", one, f" {sign} ", other, ")"), sign)

    return make


def _not(w: Writer, scope: Scope, depth: int) -> Part:
    return Part("truth", ("(NOT ", condition(w, scope, depth), ")"), "NOT")


CONNECTIVES: list[Make] = [_both("AND"), _both("AND"), _both("OR"), _both("OR"), _not, *values._common("truth")]
TESTS: dict[Make, int] = {
    comparison: 14, _between: 3, _two_bounds: 3, _in_list: 4, _like: 3, _like_a_value: 1, _has_piece: 1, _matches: 1,
    _is_null: 3, _distinct: 3, _mixed: 1, _quotient: 1, _is_true: 1, _of_rows: 1, _cast: 1, _literal: 1, _interval: 1,
}  # fmt: skip
