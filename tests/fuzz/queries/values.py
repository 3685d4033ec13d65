"""Random expressions: numbers, dates and texts."""

from __future__ import annotations

from fuzz.queries import conditions, subqueries
from fuzz.queries.parts import NUMBERS, Part, listed
from fuzz.queries.writer import Make, Scope, Writer

OF_OUTER = "column of an outer query"
"""The construct of a column of the query around."""

LITERALS = {
    "int": ("1", "0", "2", "-1", "3", "10"),
    "decimal": ("0.5", "1.00", "0.25", "-1.5", "0.1"),
    "float": ("0.5::DOUBLE", "(-2.25)::DOUBLE", "0::DOUBLE", "1e3::DOUBLE"),
    "wide": ("1e300::DOUBLE", "(-0.0)::DOUBLE", "1e-9::DOUBLE"),
    "moment": ("TIMESTAMP '1992-02-29 12:30:00'", "TIMESTAMP '1991-12-31 23:59:59.999999'"),
    "zoned": ("TIMESTAMPTZ '1992-02-29 12:30:00+00'", "TIMESTAMPTZ '1992-01-01 01:30:00+01:30'"),
    "date": ("DATE '1992-01-01'", "DATE '1992-02-29'", "DATE '1991-12-31'", "DATE '1993-06-15'"),
    "text": ("'a'", "''", "'ant'", "'a long text'", "'B'", "'b'"),
    "truth": ("TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"),
}
SQL_TYPES = {
    "int": "BIGINT", "decimal": "DECIMAL(18, 2)", "double": "DOUBLE", "float": "DOUBLE", "wide": "DOUBLE",
    "date": "DATE", "moment": "TIMESTAMP", "zoned": "TIMESTAMPTZ", "text": "VARCHAR", "truth": "BOOLEAN",
}  # fmt: skip


def value(w: Writer, sort: str, scope: Scope, depth: int) -> Part:
    """Draw an expression of a sort."""
    if depth <= 0 or (w.chance(45) and sort != "double"):
        return leaf(w, sort, scope)
    if scope.nest > 0 and sort != "truth" and w.chance(8):
        return subqueries.scalar(w, sort, scope)
    if sort == "truth":
        return conditions.condition(w, scope, depth - 1)
    return w.pick(COMPOSITES[sort])(w, scope, depth - 1)


def leaf(w: Writer, sort: str, scope: Scope) -> Part:
    """Draw a column, an aggregate of the rows of a group, or a literal."""
    if sort == "double":
        return _quotient(w, scope, 0)
    own = scope.of(sort)
    if scope.rows is not None and (not own or w.chance(60)):
        return aggregate(w, sort, scope.rows)
    if scope.outer is not None and scope.outer.of(sort) and w.chance(30):
        return Part(sort, (w.pick(scope.outer.of(sort)),), OF_OUTER)
    if own and w.chance(85):
        return Part(sort, (w.pick(own),), "column")
    if sort == "truth":
        return Part(sort, (w.pick(LITERALS["truth"]),), "literal")
    if w.chance(4):
        return Part(sort, (f"CAST(NULL AS {SQL_TYPES[sort]})",), "NULL")
    return Part(sort, (w.pick(LITERALS[sort]),), "literal")


def _binary(sort: str, sign: str, *, left: str, right: str) -> Make:
    def make(w: Writer, scope: Scope, depth: int) -> Part:
        construct = "date - date" if left == "date" else sign
        pieces = ("(", value(w, left, scope, depth), f" {sign} ", value(w, right, scope, depth), ")")
        return Part(sort, pieces, construct)

    return make


def _call(sort: str, before: str, args: str, construct: str, after: str = ")") -> Make:
    """Make expressions of a function. args: the sorts of its arguments, separated by spaces, or literals in quotes."""

    def make(w: Writer, scope: Scope, depth: int) -> Part:
        pieces: list[str | Part] = []
        for arg in args.split():
            pieces += [", "] if pieces else []
            pieces.append(w.pick(arg.split("|")) if arg[0] in "0123456789-" else value(w, arg, scope, depth))
        return Part(sort, (before, *pieces, after), construct)

    return make


def _case(sort: str) -> Make:
    def make(w: Writer, scope: Scope, depth: int) -> Part:
        branches = [
            Part("branch", (" WHEN ", conditions.condition(w, scope, depth), " THEN ", value(w, sort, scope, depth)))
            for _ in range(w.pick([1, 1, 2]))
        ]
        last = [Part("clause", (" ELSE ", value(w, sort, scope, depth)))] if w.chance(75) else []
        return Part(sort, ("CASE", listed(branches, ""), *last, " END"), "CASE")

    return make


def _case_of(sort: str) -> Make:
    def make(w: Writer, scope: Scope, depth: int) -> Part:
        of = w.pick(["int", "text", "date"])
        pieces = [value(w, each, scope, depth) for each in (of, of, sort, sort)]
        words = ("CASE ", " WHEN ", " THEN ", " ELSE ")
        return Part(sort, (*(each for pair in zip(words, pieces, strict=True) for each in pair), " END"), "CASE x WHEN")

    return make


def _common(sort: str) -> list[Make]:
    return [
        _case(sort),
        _case(sort),
        _case_of(sort),
        _call(sort, "coalesce(", f"{sort} {sort}", "coalesce"),
        _call(sort, "coalesce(", f"{sort} {sort}", "coalesce"),
        _call(sort, "nullif(", f"{sort} {sort}", "nullif"),
        _call(sort, "greatest(", f"{sort} {sort}", "greatest"),
        _call(sort, "least(", f"{sort} {sort}", "least"),
    ]


def _interval(sort: str = "date") -> Make:
    def make(w: Writer, scope: Scope, depth: int) -> Part:
        date, sign = value(w, "date", scope, depth), w.pick("+-")
        interval = f"INTERVAL '{w.pick([1, 2, 13, 30])}' {w.pick(['DAY', 'MONTH', 'YEAR'])}"
        return Part(sort, ("CAST(", date, f" {sign} {interval} AS DATE)"), "date +- INTERVAL")

    return make


def _later(w: Writer, scope: Scope, depth: int) -> Part:
    days = Part("int", ("CAST(", leaf(w, "int", scope), " AS INTEGER)"))
    return Part(
        "date", ("(", value(w, "date", scope, depth), f" {w.pick('+-')} ", days, ")"), "date +- days of a column"
    )


def _quotient(w: Writer, scope: Scope, depth: int) -> Part:
    if scope.rows is not None and w.chance(60):
        return aggregate(w, "double", scope.rows)
    sorts = [w.pick(["int", "int", "decimal"]) for _ in range(2)]
    one, other = (value(w, sort, scope, depth) for sort in sorts)
    if w.chance(25):
        other = Part("int", ("nullif(", other, ", 0)"), "nullif")
    return Part("double", ("(", one, " / ", other, ")"), "/")


def _of_whole_numbers(sign: str) -> Make:
    def make(w: Writer, scope: Scope, depth: int) -> Part:
        dividend, divisor = (value(w, "int", scope, depth) for _ in range(2))
        return Part("int", ("(", dividend, f" {sign} nullif(", divisor, ", 0))"), sign)

    return make


def _of_quotients(w: Writer, scope: Scope, depth: int) -> Part:  # noqa: ARG001 (deep ones are rounded twice)
    sign = w.pick("+*/")
    return Part("double", ("(", leaf(w, "double", scope), f" {sign} ", leaf(w, "double", scope), ")"), "two quotients")


def _elapsed(w: Writer, scope: Scope, depth: int) -> Part:
    """Draw the seconds between two timestamps."""
    one, other = (value(w, "moment", scope, depth) for _ in range(2))
    return Part("int", ("CAST(floor(epoch(", one, " - ", other, ")) AS BIGINT)"), "timestamp - timestamp")


COMPOSITES: dict[str, list[Make]] = {
    "int": [
        *(_binary("int", sign, left="int", right="int") for sign in "++-*"),
        *_common("int"),
        _call("int", "(- ", "int", "negation"),
        _call("int", "abs(", "int", "abs"),
        _call("int", "year(", "date", "year"),
        _call("int", "EXTRACT(YEAR FROM ", "date", "extract"),
        _call("int", "EXTRACT(MONTH FROM ", "date", "extract"),
        _call("int", "month(", "date", "month"),
        _call("int", "day(", "date", "day"),
        _call("int", "quarter(", "date", "quarter"),
        _call("int", "dayofweek(", "date", "dayofweek"),
        _call("int", "sign(", "int", "sign"),
        _call("int", "CAST(floor(", "decimal", "floor", ") AS BIGINT)"),
        _call("int", "length(", "text", "length"),
        _call("int", "strlen(", "text", "strlen"),
        _call("int", "position('a' IN ", "text", "position"),
        _call("int", "CAST(", "truth", "CAST AS INTEGER", " AS INTEGER)"),
        _call("int", "CAST(", "decimal", "CAST AS BIGINT", " AS BIGINT)"),
        _call("int", "CAST(", "int", "CAST AS BIGINT", " AS BIGINT)"),
        _call("int", "(", "int", "%", " % 3)"),
        _call("int", "(", "int", "//", " // 2)"),
        _of_whole_numbers("//"),
        _of_whole_numbers("%"),
        _binary("int", "-", left="date", right="date"),
        _call("int", "hour(", "moment", "hour"),
        _call("int", "date_part('minute', ", "moment", "date_part"),
        _call("int", "date_diff('hour', ", "moment moment", "date_diff of timestamps"),
        _call("int", "CAST(extract(hour FROM ", "zoned", "extract from a TIMESTAMPTZ", ") AS BIGINT)"),
        _call("int", "week(", "date", "week"),
        _call("int", "date_diff('month', ", "date date", "date_diff of dates"),
        _call("int", "datediff('day', ", "date moment", "date_diff of dates"),
        _call("int", "minute(", "moment", "minute"),
        _call("int", "second(", "moment", "second"),
        _call("int", "microsecond(", "moment", "microsecond"),
        _call("int", "epoch_ms(", "moment", "epoch_ms"),
        _call("int", "hour(CAST(", "moment", "hour of a TIME", " AS TIME))"),
        _call("int", "CAST(greatest(least(", "float", "CAST of a DOUBLE AS BIGINT", ", 1e6), -1e6) AS BIGINT)"),
        _call("int", "CAST(trunc(", "decimal", "trunc", ") AS BIGINT)"),
        _call("int", "ifnull(", "int int", "ifnull"),
        _elapsed,
    ],
    "decimal": [
        *(_binary("decimal", sign, left="decimal", right="decimal") for sign in "+-"),
        _binary("decimal", "*", left="int", right="decimal"),
        _binary("decimal", "*", left="decimal", right="decimal"),
        _binary("decimal", "-", left="int", right="decimal"),
        *_common("decimal"),
        _call("decimal", "(- ", "decimal", "negation"),
        _call("decimal", "abs(", "decimal", "abs"),
        _call("decimal", "CAST(", "int", "CAST AS DECIMAL", " AS DECIMAL(18, 2))"),
        _call("decimal", "CAST(", "decimal", "CAST AS DECIMAL", " AS DECIMAL(18, 1))"),
        _call("decimal", "ceil(", "decimal", "ceil"),
        _call("decimal", "round(", "decimal 0|1", "round"),
        _call("decimal", "CAST(greatest(least(", "float", "CAST of a DOUBLE AS DECIMAL",
              ", 1e6), -1e6) AS DECIMAL(9, 1))"),
        _call("decimal", "ifnull(", "decimal decimal", "ifnull"),
    ],
    "double": [
        _quotient,
        _quotient,
        _quotient,
        _of_quotients,
        _call("double", "(100.0 * ", "double", "* of a quotient"),
        _binary("double", "+", left="double", right="int"),
        _call("double", "CAST(", "int", "CAST AS DOUBLE", " AS DOUBLE)"),
        _call("double", "coalesce(", "double 0", "coalesce of a quotient"),
        _call("double", "round(", "double 2", "round of a quotient"),
        _case("double"),
    ],
    "float": [
        *_common("float"),
        *(_binary("float", sign, left="float", right="float") for sign in "+-"),
        _binary("float", "*", left="float", right="int"),
        _binary("float", "+", left="float", right="int"),
        _call("float", "(- ", "float", "negation"),
        _call("float", "abs(", "float", "abs"),
        _call("float", "floor(", "float", "floor of a DOUBLE"),
        _call("float", "sqrt(abs(", "float", "sqrt", "))"),
        _call("float", "round(", "float 1", "round of a DOUBLE"),
        _call("float", "round(", "float -1|2", "round of a DOUBLE"),
        _call("float", "ceil(", "float", "ceil of a DOUBLE"),
        _call("float", "trunc(", "float", "trunc of a DOUBLE"),
        _call("float", "(", "float", "% of a DOUBLE", " % 0.75)"),
        _call("float", "pow(", "int 2|3", "pow"),
        _call("float", "CAST(CAST(", "float", "CAST AS FLOAT", " AS FLOAT) AS DOUBLE)"),
        _call("float", "ifnull(", "float float", "ifnull"),
    ],
    "wide": _common("wide"),
    "moment": [
        *_common("moment"),
        _call("moment", "(", "moment", "timestamp +- INTERVAL", " + INTERVAL 90 MINUTE)"),
        _call("moment", "(", "moment", "timestamp +- INTERVAL", " - INTERVAL '1 month 1 day')"),
        _call("moment", "(TIMESTAMP '1992-01-31 10:00:00' + INTERVAL (greatest(least(", "int", "months of a column",
              ", 99), -99)) MONTH)"),
        _call("moment", "date_trunc('hour', ", "moment", "date_trunc of a timestamp"),
        _call("moment", "time_bucket(INTERVAL '7 hours', ", "moment", "time_bucket"),
        _call("moment", "date_trunc('week', ", "moment", "date_trunc of a timestamp"),
        _call("moment", "(TIMESTAMP '1992-01-31 10:00:00' - INTERVAL (greatest(least(", "int", "days of a column",
              ", 99), -99)) DAY)"),
        _call("moment", "CAST(", "date", "CAST AS TIMESTAMP", " AS TIMESTAMP)"),
        _call("moment", "CAST(", "zoned", "CAST of a TIMESTAMPTZ", " AS TIMESTAMP)"),
    ],
    "zoned": [
        *_common("zoned"),
        _call("zoned", "(", "zoned", "TIMESTAMPTZ + INTERVAL", " + INTERVAL 90 MINUTE)"),
        _call("zoned", "(", "zoned", "TIMESTAMPTZ + INTERVAL", " + INTERVAL '1 month 1 day')"),
        _call("zoned", "date_trunc('day', ", "zoned", "date_trunc of a TIMESTAMPTZ"),
        _call("zoned", "CAST(", "moment", "CAST AS TIMESTAMPTZ", " AS TIMESTAMPTZ)"),
    ],
    "date": [
        *_common("date"),
        _call("date", "CAST(", "moment", "CAST of a timestamp AS DATE", " AS DATE)"),
        _interval(),
        _interval(),
        _call("date", "last_day(", "date", "last_day"),
        _call("date", "(", "date", "date + days", " + 3)"),
        _call("date", "(", "date", "date - days", " - 31)"),
        _later,
        _call("date", "CAST(date_trunc('month', ", "date", "date_trunc", ") AS DATE)"),
        _call("date", "CAST(date_trunc('quarter', ", "date", "date_trunc", ") AS DATE)"),
        _call("date", "CAST(date_trunc('week', ", "date", "date_trunc", ") AS DATE)"),
        _call("date", "ifnull(", "date date", "ifnull"),
    ],
    "text": [
        *_common("text"),
        *_common("text"),
        _call("text", "substring(", "text 1|2|3 1|2|5", "substring"),
        _call("text", "substring(", "text", "SUBSTRING FROM FOR", " FROM 1 FOR 2)"),
        _call("text", "substring(", "text 1|-1 0|1", "substring"),
        _call("text", "upper(", "text", "upper"),
        _call("text", "lower(", "text", "lower"),
        _call("text", "trim(", "text", "trim"),
        _call("text", "ltrim(", "text", "ltrim", ", 'a ')"),
        _call("text", "rtrim(", "text", "rtrim"),
        _call("text", "ifnull(", "text text", "ifnull"),
        _call("text", "left(", "text 1|2", "left"),
        _call("text", "left(", "text 8|-1|-3", "left of any length"),
        _call("text", "right(", "text 0|1|9|-2", "right"),
        _call("text", "substring(", "text -3|0|4 8|40", "substring of any length"),
        _call("text", "substring(", "text int", "substring of a place", "::BIGINT)"),  # a sum is a HUGEINT
        _binary("text", "||", left="text", right="text"),
        _binary("text", "||", left="text", right="text"),
        _binary("text", "||", left="text", right="int"),
        _call("text", "concat(", "text int text", "concat"),
        _call("text", "concat_ws('-', ", "text text date", "concat_ws"),
        _call("text", "replace(", "text text text", "replace"),
        _call("text", "replace(", "text", "replace", ", 'a', 'éé')"),
        _call("text", "lpad(", "text 0|3|7", "lpad", ", 'é-')"),
        _call("text", "rpad(", "text 0|3|7", "rpad", ", 'é-')"),
        _call("text", "split_part(", "text", "split_part", ", ' ', 2)"),
        _call("text", "split_part(", "text text 1|2|-1", "split_part"),
        _call("text", "CAST(", "int", "CAST AS VARCHAR", " AS VARCHAR)"),
        _call("text", "CAST(", "decimal", "CAST AS VARCHAR", " AS VARCHAR)"),
        _call("text", "CAST(", "date", "CAST AS VARCHAR", " AS VARCHAR)"),
        _call("text", "CAST(", "truth", "CAST AS VARCHAR", " AS VARCHAR)"),
    ],
}  # fmt: skip


def aggregate(w: Writer, sort: str, rows: Scope) -> Part:
    """Draw an aggregate function of the rows of a group."""
    rows = rows.flat()
    call = _calls(w, sort, rows)
    if call.construct in ("sum / count", "rounded aggregate") or not w.chance(15):
        return call
    pieces = (call, Part("clause", (" FILTER (WHERE ", conditions.condition(w, rows, 1), ")")))
    return Part(sort, pieces, "FILTER")


ORDERED = (
    "quantile_disc({}, 0.3)", "any_value({} ORDER BY {})", "first({0} ORDER BY {1}, {0})", "arg_max({0}, {0})",
    "last({0} ORDER BY {1}, {0})", "arg_min({0}, {0})", "min_by({0}, {0})", "first({0} ORDER BY {1} DESC, {0} DESC)",
    "percentile_disc(0.75) WITHIN GROUP (ORDER BY {0})",
)  # fmt: skip
"""Aggregates of a column in an order that leaves no choice between different values."""
OF_TEXTS = ("string_agg({0}, '; ' ORDER BY {1} DESC, {0})", "string_agg(DISTINCT {0}, '' ORDER BY {0})")


def _ordered(w: Writer, sort: str, rows: Scope) -> Part:
    """Draw an aggregate of a column of a sort in an order."""
    of, call = w.pick(rows.of(sort)), w.pick([*ORDERED, *(OF_TEXTS if sort == "text" else ())])
    by = of if "any_value" in call else w.pick([each.text for each in rows.columns if each.sort != "double"])
    return Part(sort, (call.format(of, by),), f"{call.partition('(')[0]} in order")


def _calls(w: Writer, sort: str, rows: Scope) -> Part:
    depth = w.pick([0, 0, 1])
    if rows.of(sort) and sort != "double" and w.chance(12):
        return _ordered(w, sort, rows)
    if sort == "int" and w.chance(60):
        if w.chance(40):
            return Part("int", ("count(*)",), "count(*)")
        if w.chance(8):
            before = w.pick(["bit_and(", "bit_or(", "bit_xor(", "bit_xor(DISTINCT "])
            pieces = (f"{before}CAST(", value(w, "int", rows, 0), " AS BIGINT))")  # a power is a DOUBLE
            return Part("int", pieces, before.partition("(")[0])
        if w.chance(15):
            name = w.pick(["count_if", "count_if", "sum"])
            return Part("int", (f"{name}(", value(w, "truth", rows, 1), ")"), f"{name} of a condition")
        of = w.pick([*{each.sort: 0 for each in rows.columns if each.sort != "double"}] or ["int"])
        distinct = "DISTINCT " if w.chance(35) else ""
        return Part("int", (f"count({distinct}", value(w, of, rows, depth), ")"), f"count({distinct}x)")
    if sort == "truth":
        name = w.pick(["bool_and", "bool_or", "min", "max"])
        return Part("truth", (f"{name}(", conditions.condition(w, rows, 1), ")"), f"{name} of a condition")
    if sort == "double":
        of = w.pick(["int", "decimal"])
        if w.chance(30):
            return Part("double", ("(", aggregate(w, of, rows), " / ", aggregate(w, "int", rows), ")"), "sum / count")
        distinct = "DISTINCT " if w.chance(10) else ""
        if w.chance(25):
            name = w.pick(["median", "stddev_samp", "var_pop", "median", "quantile_cont", "covar_samp"])
            more: tuple[str | Part, ...] = (", 0.25",) if name == "quantile_cont" else ()
            if name == "covar_samp":
                more = (", ", value(w, "int", rows, depth))
            call = Part("double", (f"{name}({distinct}", value(w, "int", rows, depth), *more, ")"), name)
            if rows.of("float") and w.chance(50):  # DuckDB has no moments of infinite values
                name, of = w.pick(["stddev_samp", "var_pop", "covar_samp", "corr"]), w.pick(rows.of("float"))
                twice = f", {of}" if name.startswith("co") else ""
                call = Part(
                    "double", (f"{name}({of}{twice}) FILTER (WHERE {of} BETWEEN -9 AND 9)",), "moment of doubles"
                )
            return (
                call
                if name in ("median", "quantile_cont")
                else Part("double", ("round(", call, ", 3)"), "rounded aggregate")
            )
        of = w.pick([of, "float"])
        construct = f"avg({distinct}x)" if of == "int" else f"avg({distinct}x) of {of}s"
        return Part("double", (f"avg({distinct}", value(w, of, rows, depth), ")"), construct)
    names = {"min": 3, "max": 3, "sum": 5, "sum(DISTINCT": 1} if sort in NUMBERS else {"min": 1, "max": 1}
    name = w.weighted(names)
    before = "sum(DISTINCT " if "(" in name else f"{name}("
    return Part(sort, (before, value(w, sort, rows, depth), ")"), before.strip("( "))
