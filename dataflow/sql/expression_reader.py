"""Reading: the JSON of expressions, and of the conditions of scans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from deltamark.dataflow.operators.frames import Exclusion
from deltamark.dataflow.scalars import expressions as tree
from deltamark.dataflow.scalars.expressions import (
    UNKNOWN,
    Column,
    Comparator,
    Comparison,
    Expression,
    Interval,
    SqlType,
)
from deltamark.dataflow.scalars.functions import DIVIDE, FUNCTIONS, MONTHS, NORMALIZED, WHOLE_QUOTIENT, bucket, later_by
from deltamark.dataflow.scalars.texts import ILIKE, LIKE, PREFIX, SPLIT_PART
from deltamark.dataflow.scalars.values import DOUBLES
from deltamark.dataflow.sql.fragments import Json, objects, raises_for_several_rows
from deltamark.dataflow.sql.groups import AggregateCall
from deltamark.dataflow.sql.picks import QUANTILES, TEXTS
from deltamark.dataflow.sql.planner import SORT_KEY
from deltamark.dataflow.sql.problems import SqlError, unsupported
from deltamark.dataflow.sql.rows import Order
from deltamark.dataflow.sql.windows import End, EndUnit, WindowCall
from deltamark.dataflow.sql.written import Place, Written, function_of

COMPARISONS: Mapping[str, Comparator] = {
    "COMPARE_EQUAL": Comparator.EQUAL, "COMPARE_NOTEQUAL": Comparator.UNEQUAL, "COMPARE_LESSTHAN": Comparator.LESS,
    "COMPARE_LESSTHANOREQUALTO": Comparator.AT_MOST, "COMPARE_GREATERTHAN": Comparator.GREATER,
    "COMPARE_GREATERTHANOREQUALTO": Comparator.AT_LEAST, "COMPARE_DISTINCT_FROM": Comparator.DISTINCT,
    "COMPARE_NOT_DISTINCT_FROM": Comparator.NOT_DISTINCT,
}  # fmt: skip
BOOLEAN = SqlType("BOOLEAN")

ENDS: Mapping[str, EndUnit] = {"ROWS": "rows", "RANGE": "values", "GROUPS": "groups"}
EXCLUSIONS: Mapping[str, Exclusion] = {
    "NO_OTHER": "nothing", "CURRENT_ROW": "row", "GROUP": "peers", "TIES": "ties",
}  # fmt: skip

Args = tuple[Expression[int], ...]


class ExpressionReader:
    """Reads the expressions of one plan. written: the text that it is the plan of."""

    def __init__(self, written: Written) -> None:
        self._written = written

    def expression(self, node: Json, around: Place | None = None) -> Expression[int]:
        """Read an expression. One that is not supported becomes a refused one, so that reading goes on.

        around: the place of the expression of which it is a part.
        """
        place = self._written.expression(node, around)
        try:
            return self._read(node, place)
        except SqlError as error:
            return tree.Refused(error, (), place)

    def join_condition(self, node: Json, wide: int) -> Expression[int]:
        """Read a comparison of both sides of a join, or a condition on the columns of both. wide: the left columns."""
        if "comparison" not in node or node.get("right") is None:
            return self.expression(node.get("left") or node["expression"])
        left, right = self._all([node["left"], node["right"]])
        place = self._written.expression({"type": node["comparison"], "sides": [node["left"], node["right"]]})
        right = right.with_columns(lambda key: Column(wide + key))
        return Comparison(COMPARISONS[node["comparison"]], left, right, place)

    def call(self, node: Json) -> AggregateCall:
        """Read a call of an aggregate."""
        args, order = self._ordered(node)
        condition = self.expression(node["filter"]) if node.get("filter") else None
        place = self._written.expression(node)
        name, type_ = node["qname"]["path"][-1], self.type_of(node["return_type"])
        quantile, is_descending, separator = None, False, None
        if name in QUANTILES:
            args, (quantile, is_descending) = args[:1], self._quantile(node["function_data"])
        if name in TEXTS:
            args, separator = args[:1], node["function_data"]["separator"]
        is_distinct = node["aggregate_type"] == "DISTINCT"
        return AggregateCall(
            name, args, type_, is_distinct, condition, place, order, quantile, is_descending, separator
        )

    def _ordered(self, node: Json) -> tuple[Args, tuple[Order, ...]]:
        """Read the arguments of an aggregate, and its order, for which DuckDB may have made an argument."""
        children: list[Json] = node["children"]
        if children and (children[-1].get("qname") or {}).get("path", [""])[-1] == SORT_KEY:
            keys = children[-1]["children"]
            ways = [str(each["value"]["value"]) for each in keys[1::2]]
            of = self._all(keys[::2])
            order = (Order(each, "DESC" in way, "FIRST" in way) for each, way in zip(of, ways, strict=True))
            return self._all(children[:-1]), tuple(order)
        return self._all(children), tuple(self.orders((node.get("order_bys") or {}).get("orders", ())))

    def orders(self, nodes: Sequence[Json]) -> Iterator[Order]:
        """Read the keys of an ORDER BY."""
        for each in nodes:
            nulls_first = each["null_order"] == "NULLS FIRST"
            yield Order(self.expression(each["expression"]), each["type"] == "DESCENDING", nulls_first)

    def _quantile(self, data: Json) -> tuple[Fraction | None, bool]:
        """Read the share of a quantile, which is None unless it is one constant, and whether it is descending."""
        shares = [self._constant(each) for each in data["quantiles"]]
        known = [each for each in shares if isinstance(each, tree.Constant) and each.value is not None]
        values = [Fraction(str(each.value)) / 10**each.type.scale for each in known]
        return values[0] if len(values) == 1 else None, data["desc"]

    def window(self, node: Json) -> WindowCall:
        """Read a call of a function over a window."""
        place = self._written.expression(node)
        args, partitions = (self._all(node[each]) for each in ("children", "partitions"))
        condition = self.expression(node["filters"]) if node.get("filters") else None
        return WindowCall(
            function_of(node), args, self.type_of(node["return_type"]), partitions,
            tuple(self.orders([_in_days(each) for each in node["orders"]])),
            self._end(node, "start"), self._end(node, "end"), EXCLUSIONS[node["exclude_clause"]],
            node["distinct"], node["ignore_nulls"], condition, bool(node["arg_orders"]), place,
        )  # fmt: skip

    def _end(self, node: Json, which: str) -> End:
        """Read an end of a frame. DuckDB gives that of a RANGE as the order with the distance added or subtracted."""
        words, given = node[which].split("_"), node[f"{which}_expr"]
        if words[0] == "UNBOUNDED":
            return End("all")
        if words[0] == "CURRENT":
            return End("row" if words[2] == "ROWS" else "peers")
        unit = ENDS[words[2]]
        if unit == "values":
            found = [each for each in objects(given) if each.get("expression_class") == "BOUND_CONSTANT"]
            given = found[0] if len(found) == 1 else given
        return End(unit, -1 if words[1] == "PRECEDING" else 1, self.expression(given))

    def _all(self, nodes: Sequence[Json], around: Place | None = None) -> Args:
        return tuple(self.expression(each, around) for each in nodes)

    def _read(self, node: Json, place: Place) -> Expression[int]:
        match node["expression_class"]:
            case "BOUND_REF":
                self.type_of(node["return_type"])  # a collation is an error
                return Column(node["index"])
            case "BOUND_CONSTANT":
                return self._constant(node["value"], place)
            case "BOUND_CASE":
                checks = (self._all([each["when_expr"], each["then_expr"]], place) for each in node["case_checks"])
                branches = tuple((test, result) for test, result in checks)
                return tree.Case(branches, self.expression(node["else_expr"], place), place)
            case "BOUND_FUNCTION" | "BOUND_OPERATOR" | "BOUND_CONJUNCTION" | "BOUND_COMPARISON":
                return self._operation(node, place)
            case "BOUND_CAST":
                return self._cast(self.expression(node["child"], place), node["child"], node["return_type"], place)
        name = node["expression_class"].removeprefix("BOUND_").lower()
        raise unsupported(f"an expression of kind {name}", place)

    def _operation(self, node: Json, place: Place) -> Expression[int]:
        kind, args = node["type"], self._all(node["children"], place)
        if any(isinstance(each, tree.Call) and each.function is NORMALIZED for each in args):
            args = tuple(map(_normalized, args))
        if kind in COMPARISONS:
            return Comparison(COMPARISONS[kind], args[0], args[1], place)
        match kind:
            case "CONJUNCTION_AND":
                return tree.And(args, place)
            case "CONJUNCTION_OR":
                return tree.Or(args, place)
            case "OPERATOR_NOT":
                return tree.Not(args[0], place)
            case "OPERATOR_IS_NULL":
                return tree.IsNull(args[0], place)
            case "OPERATOR_IS_NOT_NULL":
                return tree.is_not_null(args[0], place)
            case "COMPARE_IN":
                return tree.In(args[0], args[1:], place)
            case "COMPARE_NOT_IN":
                return tree.Not(tree.In(args[0], args[1:], place), place)
            case "OPERATOR_COALESCE":
                return tree.Coalesce(args, place)
            case "OPERATOR_CAST" if (node.get("function_data") or {}).get("try_cast"):
                return tree.Unknown("TRY_CAST", args, place)
            case "OPERATOR_CAST":
                return self._cast(args[0], node["children"][0], node["return_type"], place)
        return self._call(node, args, place)

    def _cast(self, of: Expression[int], node: Json, type_: Json, place: Place) -> Expression[int]:
        """Read a cast of an expression, whose node is given; one of a row casts its values."""
        if not isinstance(of, tree.Row):
            known, info = self.type_of(type_), type_.get("type_info") or {}
            return tree.Cast(of, known._replace(width=info.get("width", 0)), place, _type_before(node))
        types = [each["second"] for each in type_["type_info"]["child_types"]]
        values = zip(of.args, node["children"], types, strict=True)
        return tree.Row(tuple(self._cast(*each, place) for each in values), place)

    def _call(self, node: Json, args: Args, place: Place) -> Expression[int]:
        """Read the call of a function. Some of DuckDB's functions are other expressions."""
        name = node["qname"]["path"][-1] if node.get("qname") else node["type"].lower()
        type_ = self.type_of(node["return_type"]) if "return_type" in node else BOOLEAN
        intervals = list(map(_is_interval, node["children"]))
        match name, args:
            case "__between", _:
                return _between(args, node["function_data"], place)
            case "row", _:
                return tree.Row(args, place)
            case "ifnull", _:
                return tree.Coalesce(args, place)
            case "+" | "-", _ if any(intervals):
                return _shifted(name, args, intervals, type_, place)
            case "time_bucket", (tree.Constant(value=Interval() as width), moment):
                return tree.Call(bucket(width), (moment,), type_, place)
            case "!~~" | "!~~*", _:
                return tree.Not(tree.Call(LIKE if name == "!~~" else ILIKE, args, type_, place), place)
            case "array_extract", (tree.Unknown("string_split", (text, separator)), number):
                return tree.Call(SPLIT_PART, (text, separator, number), type_, place)
            case "//", _ if type_.name in DOUBLES:  # decimals and doubles are divided as by /
                return tree.Call(DIVIDE, args, type_, place)
            case "//", _:
                return tree.Call(WHOLE_QUOTIENT, args, type_, place)
            case "constant_or_null", (first, *others):
                missing = tree.Or(tuple(map(tree.IsNull, others)))
                return tree.Case(((missing, tree.Constant(type_, None)),), first, place)
            case "error", _ if raises_for_several_rows(node):
                return tree.Constant(type_, None)  # the subquery itself raises the error
        function = FUNCTIONS.get(name)
        return tree.Call(function, args, type_, place) if function else tree.Unknown(name, args, place)

    def _constant(self, value: Json, place: Place | None = None) -> Expression[int]:
        """Read a constant. Trailing zeros of a decimal are dropped, which changes no value."""
        if value["type"]["id"] == "TUPLE" and not value["is_null"]:
            types = (each["second"] for each in value["type"]["type_info"]["child_types"])
            parts = zip(types, value["value"]["children"], strict=True)
            return tree.Row(
                tuple(self._constant({"value": None, **each, "type": type_}) for type_, each in parts), place
            )
        type_, known = self.type_of(value["type"]), None if value["is_null"] else _value(value["value"])
        while type_.name == "DECIMAL" and type_.scale and known is not None and known % 10 == 0:
            type_, known = SqlType("DECIMAL", type_.scale - 1), known // 10
        return tree.Constant(type_, known, place)

    def type_of(self, type_: Json) -> SqlType:
        info = type_.get("type_info") or {}
        if info.get("collation"):
            raise unsupported(*self._written.construct(["COLLATE"]))
        return SqlType(type_["id"], info.get("scale", 0))

    def table_filters(self, filters: Json) -> Iterator[Expression[int]]:
        """Read the conditions of a scan."""
        for each in filters.get("filters", []):
            yield from self._table_filter(each["value"], [each["key"]])
        for each in filters.get("multi_column_filters", []):
            yield from self._table_filter(each, each["column_indexes"])

    def _table_filter(self, each: Json, at: Sequence[int]) -> Iterator[Expression[int]]:
        """Read a condition of a scan on columns at some positions. Filters that only save reading are left out."""
        of = Column(at[0])
        match each["filter_type"]:
            case "LEGACY_CONSTANT_COMPARISON":
                yield Comparison(COMPARISONS[each["comparison_type"]], of, self._constant(each["constant"]))
            case "LEGACY_IS_NULL":
                yield tree.IsNull(of)
            case "LEGACY_IS_NOT_NULL":
                yield tree.is_not_null(of)
            case "LEGACY_IN_FILTER":
                yield tree.In(of, tuple(map(self._constant, each["values"])))
            case "LEGACY_CONJUNCTION_AND":
                children = [part for child in _children(each) for part in self._table_filter(child, at)]
                yield from _with_prefix(children)
            case "LEGACY_CONJUNCTION_OR":
                choices = [list(self._table_filter(child, at)) for child in _children(each)]
                yield tree.Or(tuple(map(_all_of, choices)))
            case "EXPRESSION_FILTER":
                yield self.expression(each["expr"]).with_columns(lambda key: Column(at[key]))
            case "LEGACY_OPTIONAL_FILTER" | "LEGACY_DYNAMIC_FILTER":
                return
            case other:
                yield tree.Refused(unsupported(f"a filter of kind {other}"))


def _in_days(order: Json) -> Json:
    """Return an order by the date that DuckDB casts to a timestamp to add an interval to it."""
    key = order["expression"]
    if key["type"] == "OPERATOR_CAST" and key["return_type"]["id"] == "TIMESTAMP":
        (child,) = key["children"]
        if child.get("return_type", {}).get("id") == "DATE":
            return {**order, "expression": child}
    return order


def _type_before(node: Json) -> SqlType:
    """Return the type of the value of a cast, if the plan has it."""
    type_ = node["value"]["type"] if node["expression_class"] == "BOUND_CONSTANT" else node.get("return_type")
    if type_ is None:
        return UNKNOWN
    info = type_.get("type_info") or {}
    return SqlType(type_["id"], info.get("scale", 0), info.get("width", 0))


def _is_interval(node: Json) -> bool:
    type_ = node["value"]["type"] if node["expression_class"] == "BOUND_CONSTANT" else node.get("return_type")
    return type_ is not None and bool(type_["id"] == "INTERVAL")


def _normalized(of: Expression[int]) -> Expression[int]:
    """Return a constant interval, whose months have 30 days where intervals are compared; or any other expression."""
    match of:
        case tree.Constant(type_, Interval(months, days, micros), place):
            return tree.Constant(type_, Interval(0, 30 * months + days, micros), place)
    return of


def _between(args: Sequence[Expression[int]], ends: Json, place: Place) -> Expression[int]:
    """Return the two comparisons that DuckDB has merged, of which each may be strict."""
    value, low, high = args
    above = Comparator.AT_LEAST if ends["lower_inclusive"] else Comparator.GREATER
    below = Comparator.AT_MOST if ends["upper_inclusive"] else Comparator.LESS
    return tree.And((Comparison(above, value, low, place), Comparison(below, value, high, place)), place)


def _shifted(sign: str, args: Args, intervals: Sequence[bool], type_: SqlType, place: Place) -> Expression[int]:
    """Return the sum or the difference of a time and an interval, or of two intervals."""
    at = list(intervals).index(True)
    match args[at], [each for each in args if each is not args[at]]:
        case tree.Constant(value=Interval() as interval), [day] if not all(intervals):
            by = 1 if sign == "+" else -1
            return tree.Shifted(day, Interval(*(by * each for each in interval)), place)
        case tree.Call(function, (count,)), [day] if function.name in MONTHS and not all(intervals):
            months = MONTHS[function.name] if sign == "+" else -MONTHS[function.name]
            return tree.Call(later_by(months), (day, count), type_, place)
    return tree.Call(FUNCTIONS[sign], args, type_, place)


def _children(of: Json) -> Iterator[Json]:
    """Yield the filters that an AND or an OR connects. DuckDB nests one of n filters in n levels."""
    remaining = [of]
    while remaining:
        each = remaining.pop()
        if each["filter_type"] == of["filter_type"]:
            remaining += reversed(each["child_filters"])
        else:
            yield each


def _all_of(conditions: Sequence[Expression[int]]) -> Expression[int]:
    return conditions[0] if len(conditions) == 1 else tree.And(tuple(conditions))


def _with_prefix(conditions: Sequence[Expression[int]]) -> Iterator[Expression[int]]:
    """Restore the condition that a text begins with a word, which DuckDB makes two comparisons."""
    low, high = (_bounds(conditions, comparator) for comparator in (Comparator.AT_LEAST, Comparator.LESS))
    for word, each in low.items():
        if _is_prefix(word) and (other := high.get(word[:-1] + chr(ord(word[-1]) + 1))) is not None:
            yield tree.Call(PREFIX, (each.left, each.right), BOOLEAN)
            conditions = [rest for rest in conditions if rest not in (each, other)]
    yield from conditions


def _bounds(conditions: Sequence[Expression[int]], wanted: Comparator) -> Mapping[str, Comparison[int]]:
    """Return the comparisons of a kind with constant texts, by the text."""
    found = {}
    for each in conditions:
        match each:
            case Comparison(comparator, _, tree.Constant(SqlType("VARCHAR"), str(word))) if comparator is wanted:
                found[word] = each
    return found


def _is_prefix(word: str) -> bool:
    return bool(word) and not {"%", "_"} & set(word)


def _value(value: Any) -> Any:
    """Return a constant, which can be hashed; an integer of 128 bits is given in two halves."""
    match value:
        case {"upper": upper, "lower": lower}:
            return (upper << 64) + lower
        case {"months": months, "days": days, "micros": micros}:
            return Interval(months, days, micros)
    return value
