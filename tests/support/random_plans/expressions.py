"""Random expressions over the columns of a schema."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from support.random_plans.choices import Choices
from support.random_plans.streams import LONG, NEW_YEAR

from deltamark.dataflow.language.expr import Expr, bind, col, literal, when
from deltamark.dataflow.plan.terms import Checked, subterms
from deltamark.dataflow.types import EPOCH, Field, Schema
from deltamark.errors import DeltamarkError

MOST_YEARS_DAYS = 10_000
"""The most days between the bounds of a date whose year is taken: the kernel has a table of them."""


def fits(expr: Expr, schema: Schema) -> bool:
    """Return whether the planner can bound an expression by 64 bits."""
    try:
        return not any(isinstance(part, Checked) for part in subterms(bind(expr, schema)))
    except DeltamarkError as error:
        if error.cause != "a value may not fit in 64 bits":
            raise
        return False


def number(choices: Choices, schema: Schema, depth: int = 2) -> Expr:
    """Draw a number: arithmetic over columns, years and constants."""
    leaf = choices.pick(number_leaves(schema))
    if not depth:
        return leaf
    other = choices.pick([number(choices, schema, depth - 1), *CONSTANTS])
    shape = choices.pick(["leaf", "add", "subtract", "multiply", "negate", "when"])
    grown = {
        "leaf": lambda: leaf,
        "add": lambda: leaf + other,
        "subtract": lambda: other - leaf,
        "multiply": lambda: leaf * other,
        "negate": lambda: -leaf,
        "when": lambda: when(condition(choices, schema, depth - 1), leaf).otherwise(other),
    }[shape]()
    return grown if fits(grown, schema) else leaf


def text(choices: Choices, schema: Schema) -> Expr:
    """Draw a text that is made of columns and constants."""
    columns = [col[field.name] for field in schema.fields if field.type.kind in ("text", "code", "short")]
    leaf, other = choices.pick(columns or [Expr(literal(LONG))]), choices.pick([*columns, "été", ""])
    made = choices.pick([
        lambda of: of.concat("-", other),
        lambda of: of.upper(),
        lambda of: of.trim("a é"),
        lambda of: of.replace("a", choices.pick([other, "", "long"])),
        lambda of: of.substring(choices.pick([1, 3, -4]), choices.pick([9, 40])),
        lambda of: of.left(choices.pick([8, -2])),
        lambda of: of.right(choices.pick([9, -1])),
        lambda of: of.lpad(choices.pick([2, 9]), "é-"),
        lambda of: of.split_part(choices.pick([" ", "o"]), choices.pick([1, 2, -1])),
        lambda of: of.coalesce(other).concat(of.length().cast("VARCHAR")),
        lambda of: when(of == other, of.lower()).otherwise("none"),
    ])  # fmt: skip
    return made(leaf if choices.chance(60) else made(leaf))


CONSTANTS = [0, 1, -3, Decimal("0.5"), Decimal("1.25"), Decimal("2.0")]


def number_leaves(schema: Schema) -> list[Expr]:
    leaves = []
    for field in schema.fields:
        match field.type.kind, field.type.nullable:
            case "int", True:
                leaves.append(col[field.name].coalesce(1))
            case "int", False:
                leaves.append(col[field.name])
            case "date", False if field.type.high - field.type.low <= MOST_YEARS_DAYS:
                leaves.append(col[field.name].year())
    return leaves or [Expr(literal(1)) + 0]


def condition(choices: Choices, schema: Schema, depth: int = 2) -> Expr:
    """Draw a condition: comparisons, joined by and, or, not."""
    leaf = choices.pick(condition_leaves(choices, schema, min(depth, 1)))
    if not depth:
        return leaf
    shape = choices.pick(["leaf", "and", "or", "not"])
    if shape == "leaf":
        return leaf
    if shape == "not":
        return ~leaf
    other = condition(choices, schema, depth - 1)
    return leaf & other if shape == "and" else leaf | other


def condition_leaves(choices: Choices, schema: Schema, depth: int) -> list[Expr]:
    left, right = number(choices, schema, depth), choices.pick(CONSTANTS)
    leaves = [each for each in (left < right, left == right, left >= right) if fits(each, schema)]
    for field in schema.fields:
        leaves += conditions_on_missing(field) if field.type.nullable else conditions_on(field)
    return leaves


def conditions_on_missing(field: Field) -> list[Expr]:
    it, day = col[field.name], EPOCH + dt.timedelta(days=NEW_YEAR)
    found = [it.is_null(), ~it.is_null()]
    known = {"date": [it.coalesce(day) < day], "bool": [it.coalesce(False), ~it.coalesce(True)]}
    return [*found, *known.get(field.type.kind, [])]


def conditions_on(field: Field) -> list[Expr]:  # noqa: PLR0911 (a case for each kind)
    it = col[field.name]
    day = EPOCH + dt.timedelta(days=NEW_YEAR)
    match field.type.kind:
        case "date":
            return [it < day, it == day, it.between(day, day + dt.timedelta(days=1)), it.is_in([day])]
        case "code":
            return [it == "bee", it > "ant", it.is_in(["ant", "cat"]), it.like("_e%"), it.contains("a")]
        case "short":
            return [it == "a", it != "", it.is_in(["ab", "b", "unknown"])]
        case "text":
            return [
                it == "b",
                it.is_in(["", "a long text"]),
                it.like("a%x%t%"),
                it == LONG,
                it.like("%1"),
                it.like("_ %g_t%"),
                it.upper() == "B",
                it.concat("x").contains("tx"),
                it.length() > 9,
                it.substring(2, 3) == " lo",
                it == it,  # noqa: PLR0124
            ]
        case "double":
            return [it < 1, it == it, it * 3 >= Decimal("0.3"), it.round(1) > it, it / 0 > it - it]  # noqa: PLR0124
        case "timestamp" | "timestamptz" | "time":
            return [it == it, it < it, ~it.is_null()]  # noqa: PLR0124
        case "bool":
            return [it, ~it, it == False, it.is_in([True])]  # noqa: E712
    return [it.is_in([0, 2]), it <= 1]
