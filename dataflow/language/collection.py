"""The language of queries: a Collection is a multiset of rows that changes over time; methods make new ones.

Nothing is computed here: each method checks its words against the schema and returns a Collection over a plan node.
Weights are signed: where, select, join, concat and negate are linear in them. What looks at states (threshold,
groups, extremes, top) sees them at the end of each logical time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from deltamark.dataflow.language.expr import Expr
from deltamark.dataflow.language.iteration import closing, looped
from deltamark.dataflow.language.synonyms import COLLECTION
from deltamark.dataflow.plan.nodes import Node, node, walk
from deltamark.dataflow.plan.terms import Term, bind, column, condition, null, number, rescaled
from deltamark.dataflow.types import LARGEST, Field, Schema, Type
from deltamark.errors import DeltamarkError, unknown_attribute

Names = str | Iterable[str]


@dataclass(frozen=True)
class Aggregate:
    kind: str
    expr: Any = 1


def total(expr: Any) -> Aggregate:
    """Sum an expression over a group."""
    return Aggregate("sum", expr)


def count() -> Aggregate:
    return Aggregate("count")


def average(expr: Any) -> Aggregate:
    """Average an expression: two columns, `name.num` and `name.den`, divided when they are read."""
    return Aggregate("average", expr)


def source(name: str, columns: Mapping[str, Type], rows: int) -> Collection:
    """Declare an input: its columns, and how many rows are live at most."""
    schema = Schema(tuple(Field(each, type_) for each, type_ in columns.items()), rows)
    return Collection(node("input", (), name, schema))


@dataclass(frozen=True, repr=False)
class Collection:
    node: Node

    @property
    def schema(self) -> Schema:
        return self.node.schema

    def where(self, predicate: Expr) -> Collection:
        """Keep the rows that meet a condition."""
        return self._then("where", condition(predicate, self.schema), self.schema)

    def select(self, *names: str, **exprs: Any) -> Collection:
        """Keep the columns `names`, and add computed ones."""
        _once([*names, *exprs])
        terms = {name: column(name, self.schema[name]) for name in names}
        return self._selected({**terms, **{name: bind(expr, self.schema) for name, expr in exprs.items()}})

    def rename(self, **names: str) -> Collection:
        """Rename columns, new="old", and keep the others."""
        new_of = {old: new for new, old in names.items()}
        for old in new_of:
            self.schema[old]  # an unknown one is an error
        _once(list(names.values()))
        _once([new_of.get(name, name) for name in self.schema.names])
        return self._selected({new_of.get(name, name): column(name, self.schema[name]) for name in self.schema.names})

    def _selected(self, terms: Mapping[str, Term]) -> Collection:
        for name, term in terms.items():
            if term.type.kind == "bool" or (term.op == "literal" and isinstance(term.value, str)):
                raise DeltamarkError(
                    "cannot be a column", f"{name} = {term} ({term.type})", "use when(...).otherwise(...)"
                )
        schema = Schema(tuple(Field(name, term.type) for name, term in terms.items()), self.schema.rows)
        return self._then("select", tuple(terms.items()), schema)

    def concat(self, *others: Collection) -> Collection:
        """Add the rows of collections with the same columns."""
        schema = self.schema
        for other in others:
            schema = Schema(_common_fields(schema, other.schema), schema.rows + other.schema.rows)
        return Collection(node("concat", (self.node, *(other.node for other in others)), (), schema))

    def negate(self) -> Collection:
        """Turn every weight around."""
        return self._then("negate", (), self.schema)

    def aggregate(self, by: Names = (), **aggregates: Aggregate) -> Collection:
        """Sum, count and average per group; a group exists while its number of rows is not zero."""
        keys = _names(by)
        fields = [Field(key, self.schema[key]) for key in keys]
        sums: list[tuple[str, str, Term | None]] = []
        for name, each in aggregates.items():
            if not isinstance(each, Aggregate):
                raise DeltamarkError(
                    "not an aggregate", f"{name} = {each!r}", "write total(...), average(...) or count()"
                )
            fields += self._aggregate_fields(name, each)
            sums += self._sums(name, each)
        _once([field.name for field in fields])
        groups = prod(field.type.high - field.type.low + 1 + field.type.nullable for field in fields[: len(keys)])
        return self._then("aggregate", (keys, tuple(sums)), Schema(tuple(fields), min(self.schema.rows, groups)))

    def count(self, by: Names = ()) -> Collection:
        return self.aggregate(by, count=count())

    def _sums(self, name: str, each: Aggregate) -> list[tuple[str, str, Term | None]]:
        if each.kind == "count":
            return [(name, "count", None)]
        term = bind(each.expr, self.schema)
        if each.kind == "sum":
            return [(name, "sum", term)]
        return [(f"{name}.num", "sum", term), (f"{name}.den", "count", None)]

    def _aggregate_fields(self, name: str, each: Aggregate) -> list[Field]:
        rows = Type("int", 0, 0, self.schema.rows)
        if each.kind == "count":
            return [Field(name, rows)]
        term = bind(each.expr, self.schema)
        if term.type.kind != "int" or term.type.nullable:
            raise DeltamarkError("cannot be summed", f"{name} = {term} ({term.type})", "sum numbers, none missing")
        low, high = min(term.type.low, 0), max(term.type.high, 0)
        if any(each.op == "negate" for each in walk(self.node)):
            low, high = min(low, -high), max(high, -low)
        low, high = low * self.schema.rows, high * self.schema.rows
        sums = Type("int", term.type.scale, max(low, -LARGEST), min(high, LARGEST))
        return [Field(name, sums)] if each.kind == "sum" else [Field(f"{name}.num", sums), Field(f"{name}.den", rows)]

    def distinct(self, *names: str) -> Collection:
        """Keep each row once (of the columns `names`, or all)."""
        return (self.select(*names) if names else self).threshold(1)

    def threshold(self, least: int) -> Collection:
        """Keep the rows whose multiplicity is at least `least`, once each."""
        if least < 1:
            raise DeltamarkError("no such multiplicity", least, "give at least 1")
        return self._then("threshold", least, self.schema)

    def join(self, other: Collection, on: Names | Mapping[str, str]) -> Collection:
        """Pair rows with equal keys: all columns of both, the keys once. on: names, or {mine: theirs}."""
        mine, theirs = self._join_keys(other, on)
        kept = [field for field in other.schema.fields if field.name not in theirs]
        for field in kept:
            if field.name in self.schema:
                raise DeltamarkError("a column on both sides of a join", field.name, "rename one of them first")
        rows = self.schema.rows * (1 if _unique(other.node, theirs) else other.schema.rows)
        if _unique(self.node, mine):
            rows = min(rows, other.schema.rows)
        schema = Schema((*self.schema.fields, *kept), rows)
        return Collection(node("join", (self.node, other.node), (mine, theirs), schema))

    def semijoin(self, other: Collection, on: Names | Mapping[str, str]) -> Collection:
        """Keep the rows whose keys are in the other collection."""
        mine, theirs = self._join_keys(other, on)
        if not mine:
            raise DeltamarkError("a semijoin needs a key", mine, "name the columns that must be equal")
        return self.join(other.distinct(*theirs), dict(zip(mine, theirs, strict=True)))

    def antijoin(self, other: Collection, on: Names | Mapping[str, str]) -> Collection:
        """Keep the rows whose keys are not in the other collection."""
        return self.concat(self.semijoin(other, on).negate())

    def left_join(self, other: Collection, on: Names | Mapping[str, str]) -> Collection:
        """Pair as join does, and keep rows without a partner, whose other columns are missing."""
        joined = self.join(other, on)
        missing = [(field.name, null(field.type)) for field in joined.schema.fields if field.name not in self.schema]
        alone = self.antijoin(other, on)
        terms = {name: column(name, self.schema[name]) for name in self.schema.names}
        return joined.concat(alone._selected({**terms, **dict(missing)}))  # noqa: SLF001

    def cross(self, other: Collection) -> Collection:
        """Pair every row with every row of the other: meant for collections of one row."""
        return self.join(other, ())

    def _join_keys(self, other: Collection, on: Names | Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in _names(on)}
        for mine, theirs in pairs.items():
            for name, type_ in ((mine, self.schema[mine]), (theirs, other.schema[theirs])):
                if type_.nullable:
                    raise DeltamarkError("a key that may be missing", name, "give it a value by .coalesce(...)")
            _same_type("keys", mine, self.schema[mine], other.schema[theirs])
        return tuple(pairs), tuple(pairs.values())

    def largest(self, of: str, by: Names = (), levels: Sequence[int] = ()) -> Collection:
        """Keep the rows of each group in which `of` is largest, all that tie.

        levels: sizes of intermediate groups, largest number of groups first, as a tournament; () chooses.
        """
        return self._extreme(of, by, "largest", levels)

    def smallest(self, of: str, by: Names = (), levels: Sequence[int] = ()) -> Collection:
        """Keep the rows of each group in which `of` is smallest, all that tie."""
        return self._extreme(of, by, "smallest", levels)

    def _extreme(self, of: str, by: Names, which: str, levels: Sequence[int]) -> Collection:
        keys = _names(by)
        for name in keys:
            self.schema[name]
        if self.schema[of].nullable:
            raise DeltamarkError("a value that may be missing", of, "give it a value by .coalesce(...)")
        if self.schema[of].kind == "text":
            raise DeltamarkError("texts have no largest or smallest here", of, "use top(...), which orders them")
        return self._then("extreme", (keys, of, which, tuple(levels)), self.schema)

    def top(self, k: int, order: Sequence[str]) -> Collection:
        """Keep the first k rows, counting multiplicity. order: "name", or "-name" for descending.

        Ties are broken by the remaining columns in their order, ascending.
        """
        if not isinstance(k, int) or k < 1:
            raise DeltamarkError("no such number of rows", k, "give at least 1")
        given = [(each.removeprefix("-"), "descending" if each.startswith("-") else "ascending") for each in order]
        named = {name for name, _ in given}
        for name in named:
            self.schema[name]
        rest = [(name, "ascending") for name in self.schema.names if name not in named]
        return self._then("top", (k, (*given, *rest)), replace(self.schema, rows=min(k, self.schema.rows)))

    def above(
        self, limits: Collection, value: Any, numerator: str, denominator: str = "", on: Names = ()
    ) -> Collection:
        """Keep the rows whose value * denominator > numerator, of the row of `limits` with the same keys.

        `limits` has at most one row a key. When it moves, only rows between the old and the new bound are touched.
        """
        return self._bound(limits, value, ("above", numerator, denominator), on)

    def below(
        self, limits: Collection, value: Any, numerator: str, denominator: str = "", on: Names = ()
    ) -> Collection:
        """Keep the rows whose value * denominator < numerator, as `above` does."""
        return self._bound(limits, value, ("below", numerator, denominator), on)

    def _bound(self, limits: Collection, value: Any, how: tuple[str, str, str], on: Names) -> Collection:
        mine, theirs = self._join_keys(limits, on)
        which, numerator, denominator = how
        term, limit = bind(value, self.schema), column(numerator, limits.schema[numerator])
        by = column(denominator, limits.schema[denominator]) if denominator else number(1)
        for each in (term.type, limit.type, by.type):
            if each.kind != "int" or each.nullable:
                raise DeltamarkError("no number to compare by", each, "compare numbers, none missing")
        if by.type.high < 1:
            actual = f"{denominator} <= {by.type.high}"
            raise DeltamarkError("a denominator that is not positive", actual, "divide by a number of rows")
        scale = max(term.type.scale + by.type.scale, limit.type.scale)
        term = rescaled(term, scale - by.type.scale)
        if limit.type.scale < scale:  # the numerator as a column of the other scale
            numerator = _unused(numerator, limits.schema)
            names = dict.fromkeys([*theirs, *filter(None, [denominator])])
            terms = {name: column(name, limits.schema[name]) for name in names}
            limits = limits._selected({**terms, numerator: rescaled(limit, scale)})
        params = (mine, theirs, term, which, numerator, denominator)
        return Collection(node("bound", (self.node, limits.node), params, self.schema))

    def or_null(self) -> Collection:
        """Have one row of NULL while there are no rows, as SQL's aggregate over nothing."""
        fields = tuple(Field(field.name, field.type.or_null()) for field in self.schema.fields)
        return self._then("or_null", (), Schema(fields, max(self.schema.rows, 1)))

    def iterate(self, body: Callable[[Collection], Collection]) -> Collection:
        """Put rows through a body again and again, beginning with these, until that changes nothing.

        The body is linear in what it is given, may join it with collections from outside, and ends in `distinct` or
        `threshold`, or in `smallest` or `largest` by all other columns, made distinct.
        """
        return Collection(looped(self.node, lambda rows: body(Collection(rows)).node))

    def consolidate(self) -> Collection:
        """Cancel what cancels within each time."""
        return self._then("consolidate", (), self.schema)

    def __repr__(self) -> str:
        return f"Collection of {self.schema.described()}"

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            known = (each for each in dir(type(self)) if not each.startswith("_"))
            raise unknown_attribute("Collection", name, known, COLLECTION)

    def _then(self, op: Any, params: Any, schema: Schema) -> Collection:
        return Collection(node(op, (self.node,), params, schema))


def _names(names: Names) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Iterable):
        raise DeltamarkError("not the names of columns", repr(names), "write 'name', or ['first', 'second']")
    return tuple(names)


def _unused(name: str, schema: Schema) -> str:
    while name in schema:
        name += "'"
    return name


def _once(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DeltamarkError("a column given twice", name, "give each a name of its own")


def _unique(at: Node, names: Sequence[str]) -> bool:
    """Is there at most one row (of weight 1) for each value of these columns?"""
    match at.op:
        case "threshold":
            return set(at.schema.names) <= set(names)
        case "aggregate":
            return set(at.params[0]) <= set(names)
        case "iterate":
            return set(closing(at.inputs[1]).keys) <= set(names)
        case "where":
            return _unique(at.inputs[0], names)
        case "select":
            terms = dict(at.params)
            return _unique(at.inputs[0], [terms[name].value for name in names if terms[name].op == "column"])
    return False


def _same_type(what: str, name: str, mine: Type, theirs: Type) -> None:
    if mine.comparable != theirs.comparable or mine.scale != theirs.scale:
        raise DeltamarkError(f"{what} of different types", f"{name}: {mine} and {theirs}", "convert one of them")


def _common_fields(mine: Schema, theirs: Schema) -> tuple[Field, ...]:
    if mine.names != theirs.names:
        raise DeltamarkError("different columns", f"{mine.names} and {theirs.names}", "select the same ones first")
    fields = []
    for field in mine.fields:
        other = theirs[field.name]
        _same_type("columns", field.name, field.type, other)
        low, high = min(field.type.low, other.low), max(field.type.high, other.high)
        fields.append(
            Field(field.name, replace(field.type, low=low, high=high, nullable=field.type.nullable or other.nullable))
        )
    return tuple(fields)
