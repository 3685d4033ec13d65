"""Collections: multisets of rows that change over time, and the methods that derive one collection from others.

Nothing is computed here. Each method checks its arguments against the schema and returns a collection over a plan node.
Weights are signed: where, select, join, concat and negate are linear in them. The operators that depend on states
(thresholds, groups, extremes, top) see them at the end of each logical time.

Rules about schemas that the methods of collections share: equal types, unique keys, bounds on groups.

Aggregates of groups: the columns in which sums, counts and ratios are kept, with the bounds of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from
from math import prod
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal, NoReturn

from deltamark.dataflow.language.expr import (
    COLLECTION,
    Expr,
    Operand,
    RatioExpr,
    SumExpr,
    bind,
    bind_condition,
    bind_value,
    col,
    column_value,
    count,
    ratio_columns,
)
from deltamark.dataflow.language.iteration import looped
from deltamark.dataflow.language.moments import AggregateExpr, moment_term, moments_of, sums_of_moments
from deltamark.dataflow.language.picks import PickExpr, picked_values
from deltamark.dataflow.language.windows import (
    FrameExpr,
    WindowExpr,
    refuse_frame,
    row_number,
    window_functions,
    with_frames_of_doubles,
    with_one_order_of_ties,
)
from deltamark.dataflow.operators.aggregate import Aggregate, Sum
from deltamark.dataflow.operators.at_most_one import AtMostOne
from deltamark.dataflow.operators.consolidate import Consolidate
from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.frames import FrameFunction, Frames
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Concat, Filter, Negate, Project, subtracts
from deltamark.dataflow.operators.node import Node, is_unique, walk
from deltamark.dataflow.operators.null_row import NullRow
from deltamark.dataflow.operators.pick import Pick
from deltamark.dataflow.operators.sample import Sample
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.operators.top import Direction, TopK
from deltamark.dataflow.operators.window import Window, WindowFunction
from deltamark.dataflow.plan.terms import ExactMoment, Ratio, Term, column, null
from deltamark.dataflow.scalars.moments import MomentSums
from deltamark.dataflow.types import DOUBLE, LARGEST, Field, Schema, Type, spanning
from deltamark.errors import DeltamarkError, unknown_attribute


def refuse_repeated(names: Sequence[str]) -> None:
    """Raise an error for a column name that occurs twice."""
    for name in names:
        if names.count(name) > 1:
            raise DeltamarkError("a column given twice", name, "give each a name of its own")


def refuse_other_type(what: str, name: str, left: Type, right: Type) -> None:
    """Raise an error for values that cannot be compared."""
    if left.comparable != right.comparable or left.scale != right.scale:
        raise DeltamarkError(
            f"{what} of different types", f"{name}: {left} and {right}", "declare both with the same type"
        )


def common_fields(left: Schema, right: Schema) -> tuple[Field, ...]:
    """Return the columns of a concatenation: both sides have the same names, and the bounds span those of both."""
    if left.names != right.names:
        raise DeltamarkError("different columns", f"{left.names} and {right.names}", "select the same ones first")
    fields = []
    for field in left.fields:
        other = right.field(field.name)
        refuse_other_type("columns", field.name, field.type, other.type)
        sql = field.sql if field.sql == other.sql else ""
        fields.append(Field(field.name, spanning(field.type, other.type), sql))
    return tuple(fields)


def groups_of(keys: Iterable[Field]) -> int:
    """Return the number of different values that key columns can have."""
    return prod(each.type.high - each.type.low + 1 + each.type.nullable for each in keys)


def sums_of(aggregates: Mapping[str, AggregateExpr], rows: Node) -> Iterator[tuple[Sum, Type]]:
    """Yield the columns of aggregates with their types; a ratio has two."""
    for name, aggregate in aggregates.items():
        match aggregate:
            case SumExpr():
                yield _sum(name, aggregate, rows)
            case RatioExpr():
                numerator, denominator = ratio_columns(name)
                for part, of in ((numerator, aggregate.numerator), (denominator, aggregate.denominator)):
                    found = _sum(part, of, rows)
                    if found[1].kind == "double":
                        remedy = "compute the sum and count(), and divide them by .select(...)"
                        raise DeltamarkError("an exact average of doubles", f"{name} = {found[0].term}", remedy)
                    yield found
            case _:
                remedy = "write col.x.sum(), col.x.mean() or count()"
                raise DeltamarkError("not an aggregate", f"{name} = {aggregate!r}", remedy)


def _sum(name: str, aggregate: SumExpr, rows: Node) -> tuple[Sum, Type]:
    if aggregate.expr is None:  # a group without rows does not exist
        return Sum(name, "count"), Type("int", 0, min(1, rows.schema.rows), rows.schema.rows)
    term = bind(aggregate.expr, rows.schema)
    if isinstance(term, ExactMoment):
        return Sum(name, "sum", term), term.type
    if term.type.kind not in ("int", "double") or term.type.nullable:
        raise DeltamarkError("cannot be summed", f"{name} = {term} ({term.type})", "sum numbers, none missing")
    return Sum(name, "sum", term), _sum_type(term, rows)


def _sum_type(term: Term, rows: Node) -> Type:
    """Bound a sum by the bounds of its term and the number of rows, any of which a plan may subtract."""
    if term.type.kind == "double":
        return DOUBLE
    low, high = min(term.type.low, 0), max(term.type.high, 0)
    if subtracts(rows):
        low, high = min(low, -high), max(high, -low)
    low, high = low * rows.schema.rows, high * rows.schema.rows
    return Type("int", term.type.scale, max(low, -LARGEST), min(high, LARGEST))


ROWS = 10**8
"""The largest number of live rows of an input for which none is given. Not tuned: state grows with actual rows, and
larger bounds make larger ranges of keys index arrays directly (see plan/direct_keys.py)."""

Names = str | Iterable[str]
"""One column name, or several."""

JoinKeys = Names | Mapping[str, str]
"""The columns of a join that must be equal: names that both sides have, or {left: right}."""


def source(name: str, columns: Mapping[str, Type], rows: int = ROWS, key: Names = ()) -> Collection:
    """Declare an input: its name, its columns, and the largest number of rows that are live at once.

    `source("sales", {"shop": integer(0, 99), "price": integer(0, 10_000, scale=2)}, rows=1_000_000)`

    key: columns in whose values no two live rows agree (PRIMARY KEY). As the bounds are, it is a promise.
    """
    return declared(name, [Field(each, type_) for each, type_ in columns.items()], rows, key)


def declared(name: str, fields: Iterable[Field], rows: int = ROWS, key: Names = ()) -> Collection:
    """Declare an input as `source` does. fields: the columns."""
    if not isinstance(rows, Integral) or rows < 0:
        raise DeltamarkError("not a number of rows", f"{name}: {rows!r}", "give the largest number of live rows")
    schema = Schema(tuple(fields), int(rows))
    for each in _names(key):
        schema[each]  # an unknown column is an error
    return Collection(Input(name, _names(key), schema=schema))


@dataclass(frozen=True, repr=False)
class Collection:
    """A multiset of rows that changes over time."""

    node: Node

    @property
    def schema(self) -> Schema:
        """The columns with their types, and the largest number of live rows."""
        return self.node.schema

    def where(self, predicate: Expr) -> Collection:
        """Keep the rows that satisfy a condition: `sales.where((col.price > 5) & (col.shop == 3))`."""
        return Collection(Filter(self.node, bind_condition(predicate, self.schema), schema=self.schema))

    def select(self, *names: str, **exprs: Operand) -> Collection:
        """Keep some columns and add computed ones: `sales.select("shop", twice=2 * col.price)`."""
        refuse_repeated([*names, *exprs])
        copied = {name: column_value(name, self.schema) for name in names}
        return self._project({**copied, **{name: bind_value(expr, self.schema) for name, expr in exprs.items()}})

    def rename(self, **names: str) -> Collection:
        """Rename columns, new="old", and keep the others: `sales.rename(store="shop")`."""
        new_of: dict[str, str] = {}
        for new, old in names.items():
            is_ratio = isinstance(column_value(old, self.schema), Ratio)  # an unknown column is an error
            new_of |= zip(ratio_columns(old), ratio_columns(new), strict=True) if is_ratio else {old: new}
        refuse_repeated(list(names.values()))
        refuse_repeated([new_of.get(name, name) for name in self.schema.names])
        return self._project({new_of.get(name, name): column(name, self.schema[name]) for name in self.schema.names})

    def concat(self, *others: Collection) -> Collection:
        """Add up collections with the same columns, keeping duplicates (UNION ALL)."""
        schema = self.schema
        for other in others:
            schema = Schema(common_fields(schema, other.schema), schema.rows + other.schema.rows)
        return Collection(Concat((self.node, *(other.node for other in others)), schema=schema))

    def negate(self) -> Collection:
        """Negate every weight: `a.concat(b.negate())` subtracts b from a."""
        return Collection(Negate(self.node, schema=self.schema))

    def aggregate(self, by: Names = (), **aggregates: AggregateExpr) -> Collection:
        """Compute sums, counts and averages per group: `sales.aggregate("shop", sold=count(), mean=col.price.mean())`.

        A group exists while its number of rows is not zero. Without keys all rows are one group. An average, and any
        other ratio of two sums, is exact: readers of the answer divide its columns `mean.num` and `mean.den`. A
        variance, a standard deviation, a covariance or a correlation is a DOUBLE, computed of exact sums.
        """
        keys, moments = _names(by), moments_of(aggregates, self.schema)
        if moments:
            others = {name: each for name, each in aggregates.items() if name not in moments}
            sums = self.aggregate(by, **others, **sums_of_moments(moments))
            return sums._with_moments(keys, aggregates, moments)  # noqa: SLF001
        columns = list(sums_of(aggregates, self.node))
        fields = [*map(self.schema.field, keys), *(Field(each.name, type_) for each, type_ in columns)]
        refuse_repeated([field.name for field in fields])
        schema = Schema(tuple(fields), min(self.schema.rows, groups_of(fields[: len(keys)])))
        return Collection(Aggregate(self.node, keys, tuple(each for each, _ in columns), schema=schema))

    def _with_moments(self, keys: Names, names: Iterable[str], moments: Mapping[str, MomentSums]) -> Collection:
        """Replace the sums of moments by the moments."""
        terms: dict[str, Term | Ratio] = {key: column(key, self.schema[key]) for key in keys}
        for name in names:
            is_moment = name in moments
            terms[name] = (
                moment_term(name, moments[name], self.schema) if is_moment else column_value(name, self.schema)
            )
        return self._project(terms)

    def count(self, by: Names = ()) -> Collection:
        """Count the rows of each group, in a column `count`: `sales.count(by="shop")`."""
        return self.aggregate(by, count=count())

    def distinct(self, *names: str) -> Collection:
        """Keep each row once; with names, each combination of these columns: `sales.distinct("shop")`."""
        return (self.select(*names) if names else self).threshold(1)

    def threshold(self, least: int) -> Collection:
        """Keep the rows whose multiplicity is at least `least`, once each."""
        if least < 1:
            raise DeltamarkError("no such multiplicity", least, "give at least 1")
        return Collection(Threshold(self.node, least, schema=self.schema))

    def at_most_one(self, by: Names = ()) -> Collection:
        """Allow one row, or one for each combination of values of some columns; more at the end of a time are an error.

        `rates.at_most_one(by="currency")`: a join by the currency finds one rate.
        """
        keys = _names(by)
        rows = min(self.schema.rows, groups_of(map(self.schema.field, keys)))
        return Collection(AtMostOne(self.node, keys, schema=replace(self.schema, rows=rows)))

    def join(self, other: Collection, on: JoinKeys, *, null_keys: bool = False) -> Collection:
        """Pair the rows with equal keys; the result has all columns of both sides, and the keys once.

        `sales.join(shops, on="shop")`, or, if the columns have different names, `on={"shop": "id"}`. A column of the
        right side whose name the left side has too is prefixed by the name of its input: `col["shops.name"]`.
        null_keys: whether keys may be NULL, which equals NULL then (IS NOT DISTINCT FROM).
        """
        left_keys, right_keys = self._join_keys(other, on, null_keys=null_keys)
        other = other._prefixed(right_keys, self.schema)
        kept = [field for field in other.schema.fields if field.name not in right_keys]
        rows = self.schema.rows * (1 if is_unique(other.node, right_keys) else other.schema.rows)
        if is_unique(self.node, left_keys):
            rows = min(rows, other.schema.rows)
        schema = Schema((*self.schema.fields, *kept), rows)
        return Collection(Join(self.node, other.node, left_keys, right_keys, schema=schema))

    def semijoin(self, other: Collection, on: JoinKeys) -> Collection:
        """Keep the rows whose keys occur in the other collection (WHERE ... IN)."""
        left_keys, right_keys = self._join_keys(other, on)
        if not left_keys:
            raise DeltamarkError("a semijoin needs a key", left_keys, "name the columns that must be equal")
        return self.join(other.distinct(*right_keys), dict(zip(left_keys, right_keys, strict=True)))

    def antijoin(self, other: Collection, on: JoinKeys) -> Collection:
        """Keep the rows whose keys do not occur in the other collection (WHERE ... NOT IN)."""
        return self.concat(self.semijoin(other, on).negate())

    def left_join(self, other: Collection, on: JoinKeys) -> Collection:
        """Pair rows as `join` does, and keep rows without a partner, with NULL in the other side's columns."""
        joined = self.join(other, on)
        missing = {field.name: null(field.type) for field in joined.schema.fields if field.name not in self.schema}
        unpaired = self.antijoin(other, on)
        terms = {name: column(name, self.schema[name]) for name in self.schema.names}
        return joined.concat(unpaired._project({**terms, **missing}))  # noqa: SLF001

    def cross(self, other: Collection) -> Collection:
        """Pair every row with every row of the other collection, which is meant to have few rows."""
        return self.join(other, ())

    def largest(self, of: str, by: Names = (), levels: Sequence[int] = ()) -> Collection:
        """Keep the rows of each group in which the column `of` is largest, including ties.

        `sales.largest("price", by="shop")`. levels: the numbers of groups of an intermediate tournament, the largest
        first; by default the engine chooses them.
        """
        return self._extreme(of, by, "largest", levels)

    def smallest(self, of: str, by: Names = (), levels: Sequence[int] = ()) -> Collection:
        """Keep the rows of each group in which the column `of` is smallest, as `largest` does."""
        return self._extreme(of, by, "smallest", levels)

    def top(self, k: int, order: Sequence[str], by: Names = ()) -> Collection:
        """Keep the first k rows, or the first k of each group, counting multiplicity (ORDER BY ... LIMIT k).

        `sales.top(10, ["-price", "shop"])` orders by descending price, then by shop. Ties are broken by the remaining
        columns, ascending.
        """
        if not isinstance(k, int) or k < 1:
            raise DeltamarkError("no such number of rows", k, "give at least 1")
        keys = _names(by)
        if keys:
            place = next(name for at in count_from(1) if (name := f"place_{at}") not in self.schema.names)
            return self.window(keys, order, k, **{place: row_number()}).select(*self.schema.names)
        given = self._directions(order)
        named = {name for name, _ in given}
        rest: list[tuple[str, Direction]] = [(name, "ascending") for name in self.schema.names if name not in named]
        schema = replace(self.schema, rows=min(k, self.schema.rows))
        return Collection(TopK(self.node, k, (*given, *rest), schema=schema))

    def window(
        self, by: Names = (), order: Sequence[str] = (), limit: int | None = None, **functions: WindowExpr | FrameExpr
    ) -> Collection:
        """Add functions of each row and other rows of its group (OVER (PARTITION BY ... ORDER BY ...)).

        `sales.window(by="shop", order=["-price"], place=rank(), sold=running_sum("price"), next=lead("price"))`

        order: as for `top`. limit: keep only the rows for which the first function, which is a place or a rank, is at
        most this. NULL comes first, and in descending order last. The remaining columns break ties, ascending.
        """
        keys, directions = _names(by), tuple(self._directions(order))
        given = with_frames_of_doubles(functions, self.schema)
        columns = list(window_functions(given, self.schema))
        together = with_one_order_of_ties(given)
        if not columns:
            raise DeltamarkError("a window without a function", "no function", "add one: place=row_number()")
        first = columns[0][0]
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise DeltamarkError("no such number of rows", limit, "give at least 1")
        if limit is not None and not (isinstance(first, WindowFunction) and first.is_place):
            raise DeltamarkError("a limit of a function that is no place", str(first), "begin with row_number()")
        for name in keys:
            self.schema[name]  # an unknown column is an error
        fields = {each.name: Field(each.name, type_) for each, type_ in columns}
        refuse_repeated([*self.schema.names, *fields])
        framed = tuple(each for each, _ in columns if isinstance(each, FrameFunction))
        running = tuple(each for each, _ in columns if isinstance(each, WindowFunction))
        for frame in dict.fromkeys(each.frame for each in framed):
            refuse_frame(frame, [self.schema[name] for name, _ in directions])
        if together != given:
            is_limit_kept = together[first.name] == given[first.name]
            whole = self.window(keys, order, limit if is_limit_kept else None, **together)
            return whole if limit is None or is_limit_kept else whole.where(col[first.name] <= limit)
        node, known = self.node, list(self.schema.fields)
        if framed:
            known += [fields[each.name] for each in framed]
            node = Frames(node, keys, directions, framed, schema=Schema(tuple(known), self.schema.rows))
        if running:
            known += [fields[each.name] for each in running]
            schema = Schema(tuple(known), self.schema.rows)
            node = Window(node, keys, directions, running, limit or 0, schema=schema)
        names = (*self.schema.names, *fields)
        return Collection(node) if node.schema.names == names else Collection(node).select(*names)

    def pick(self, by: Names = (), order: Sequence[str] = (), **values: PickExpr) -> Collection:
        """Return for each group values of its rows at places in an order: the first row, the last one, and quantiles.

        `sales.pick("shop", ["price"], cheapest=first("item"), middle=median("price"))`

        order: as for `top`; NULL comes first, and in descending order last. Ties are broken by the picked columns,
        ascending. A group exists while it has rows. A median, and any other interpolated number, is exact: readers of
        the answer divide its columns `middle.num` and `middle.den`.
        """
        keys, directions = _names(by), self._directions(order)
        columns, terms = picked_values(values, self.schema)
        if not columns:
            raise DeltamarkError("a pick without a value", "no value", 'add one: cheapest=first("price")')
        fields = [*map(self.schema.field, keys), *(Field(each.name, type_) for each, type_ in columns)]
        refuse_repeated([field.name for field in fields])
        schema = Schema(tuple(fields), min(self.schema.rows, groups_of(fields[: len(keys)])))
        picked = Collection(Pick(self.node, keys, tuple(directions), tuple(each for each, _ in columns), schema=schema))
        if len(terms) == len(columns):
            return picked
        return picked._project({**{key: column(key, schema[key]) for key in keys}, **terms})

    def _directions(self, order: Sequence[str]) -> list[tuple[str, Direction]]:
        """Return the columns of an order, of which those with a sign are descending."""
        for each in order:
            self.schema[each.removeprefix("-")]  # an unknown column is an error
        return [(each.removeprefix("-"), "descending" if each.startswith("-") else "ascending") for each in order]

    def sample(self, fraction: float, by: Names = ()) -> Collection:
        """Keep a fraction of the rows, or of some columns' values with their rows: `sales.sample(0.1, by="shop")`.

        Values decide whether a row is kept, so every run, batch and worker keeps the same rows. Without columns the
        whole row decides.
        """
        if not isinstance(fraction, Real) or not 0 <= fraction <= 1:
            raise DeltamarkError("not a fraction", repr(fraction), "give a number from 0 to 1")
        keys = _names(by) or self.schema.names
        for name in keys:
            self.schema[name]  # an unknown column is an error
        return Collection(Sample(self.node, float(fraction), keys, schema=self.schema))

    def or_null(self) -> Collection:
        """Add one row of NULL while there are no rows, as SQL's aggregate over an empty table has."""
        fields = tuple(replace(field, type=field.type.or_null()) for field in self.schema.fields)
        return Collection(NullRow(self.node, schema=Schema(fields, max(self.schema.rows, 1))))

    def iterate(self, body: Callable[[Collection], Collection]) -> Collection:
        """Apply a body repeatedly, beginning with these rows, until nothing changes.

        The nodes that can be reached from some roots, given `step = {"node": "src"}`:
        `roots.iterate(lambda found: found.join(edges, on=step).select(node=col.dst).concat(roots).distinct())`

        The body is linear in its argument, may join it with collections from outside, and ends in `distinct` or
        `threshold`, or in `smallest` or `largest` by all other columns, made distinct.
        """
        return Collection(looped(self.node, lambda rows: body(Collection(rows)).node))

    def consolidate(self) -> Collection:
        """Sum the weights of equal rows within each time, and drop rows of weight zero."""
        return Collection(Consolidate(self.node, schema=self.schema))

    def optimized(self) -> Collection:
        """Return the same rows by joins in the order that is expected to cost least, as `sql` does.

        Joins, semijoins, filters and projections change places, and joins with the extremes of their own groups become
        extremes. A collection that several others read is made once, as without this method.
        """
        from deltamark.dataflow.passes.optimize import optimized  # noqa: PLC0415 (passes import this module)

        return Collection(optimized(self.node))

    def explain(self, *, workers: int = 1) -> str:
        """Describe the plan as a tree, with the estimated rows of each operator: `print(sales.explain())`."""
        from deltamark.dataflow.explain import explain_plans  # noqa: PLC0415 (it loads the compiler)

        return explain_plans({"answer": self.node}, workers)

    def __repr__(self) -> str:
        return f"Collection of {self.schema.described()}"

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            known = (each for each in dir(type(self)) if not each.startswith("_"))
            raise unknown_attribute("Collection", name, known, COLLECTION)

    def _prefixed(self, keys: Sequence[str], other: Schema) -> Collection:
        """Prefix the columns that the left side of a join has, except for the keys."""
        new = {name: f"{self._input_name}.{name}" for name in self.schema.names if name in other and name not in keys}
        for name in new.values():
            if name in other or name in self.schema:
                raise DeltamarkError("a column on both sides of a join", name, "rename one of them first")
        return self.rename(**{after: before for before, after in new.items()}) if new else self

    @property
    def _input_name(self) -> str:
        """The name of the first input that the rows come from."""
        return next((each.name for each in walk(self.node) if isinstance(each, Input)), "right")

    def _project(self, values: Mapping[str, Term | Ratio]) -> Collection:
        terms: dict[str, Term] = {}
        for name, value in values.items():
            if isinstance(value, Ratio):
                terms |= zip(ratio_columns(name), (value.numerator, value.denominator), strict=True)
            else:
                terms[name] = value
        sql_of = {column(field.name, field.type): field.sql for field in self.schema.fields}
        fields = tuple(Field(name, term.type, sql_of.get(term, "")) for name, term in terms.items())
        schema = Schema(fields, self.schema.rows)
        return Collection(Project(self.node, tuple(terms.items()), schema=schema))

    def _join_keys(
        self, other: Collection, on: JoinKeys, *, null_keys: bool = False
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in _names(on)}
        for mine, theirs in pairs.items():
            for name, type_ in ((mine, self.schema[mine]), (theirs, other.schema[theirs])):
                if type_.nullable and not null_keys:
                    raise DeltamarkError("a key that may be missing", name, "give it a value by .coalesce(...)")
            refuse_other_type("keys", mine, self.schema[mine], other.schema[theirs])
        return tuple(pairs), tuple(pairs.values())

    def _extreme(self, of: str, by: Names, which: Literal["largest", "smallest"], levels: Sequence[int]) -> Collection:
        keys = _names(by)
        for name in keys:
            self.schema[name]  # an unknown column is an error
        if self.schema[of].nullable:
            raise DeltamarkError("a value that may be missing", of, "give it a value by .coalesce(...)")
        if self.schema[of].kind == "text":
            raise DeltamarkError("texts have no largest or smallest here", of, "use top(...), which orders them")
        return Collection(Extreme(self.node, keys, of, which, tuple(levels), schema=self.schema))


def _names(names: Names) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Iterable):
        raise DeltamarkError("not the names of columns", repr(names), "write 'name', or ['first', 'second']")
    return tuple(names)
