"""Motifs: conjunctive queries over any relations, maintained by delta queries with worst-case optimal extensions.

A motif is a list of atoms: each is a relation with a variable for each of its columns. Triangles are e(a,b), e(b,c),
e(a,c). There is one rule per atom. It takes the changes of the atom's relation and extends them by one variable at a
time, with the values that occur in all atoms whose variables are then known. The only state is the indexes of the
relations: the forward and the reverse index of a relation serve all rules and all of its atoms.

The rules act as if one ran after the other, the last one first, so changes of the same time are counted once: a rule
sees the atoms before its own as of the time before, and the atoms after it as of the end of the time. Then the rule of
the first atom finds all matches of a first batch: see `runtime.loads`. The multiplicity of a match is the product of
those of its rows. Rules of a symmetric motif begin with equal steps, which are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import Expr, col
from deltamark.dataflow.operators.extend import Extend, IndexRead
from deltamark.dataflow.scalars import expressions as tree
from deltamark.dataflow.types import Field, Schema, Type
from deltamark.errors import DeltamarkError, unknown

Variant = Literal["least", "fixed", "binary"]
"""How values are proposed: by the atom with the fewest, or always by the first; `binary` joins whole collections."""
VARIANTS: tuple[Variant, ...] = get_args(Variant)

Version = Literal["old", "new"]

MAX_ROWS = 1 << 62


@dataclass(frozen=True)
class Atom:
    """A relation with a variable for each of its columns: `Atom(edges, ("a", "b"))`."""

    relation: Collection
    variables: tuple[str, ...]

    def __post_init__(self) -> None:
        names = self.relation.schema.names
        if len(self.variables) != len(names) or not names:
            actual = f"({', '.join(self.variables)}) for ({', '.join(names)})"
            raise DeltamarkError("not a variable for each column", actual, "name as many variables as columns")

    def simple(self) -> Atom:
        """Return an atom with distinct variables: a repeated one becomes a filter."""
        column_of: dict[str, str] = {}
        relation = self.relation
        for column, variable in zip(self.relation.schema.names, self.variables, strict=True):
            first = column_of.setdefault(variable, column)
            if first != column:
                relation = relation.where(col[first] == col[column])
        if len(column_of) == len(self.variables):
            return self
        return Atom(relation.select(*column_of.values()), tuple(column_of))

    def rows(self) -> Collection:
        """Return the relation with its columns named by the variables."""
        return self.relation.rename(**dict(zip(self.variables, self.relation.schema.names, strict=True)))

    def named(self, names: Mapping[str, str]) -> Atom:
        """Return the atom with renamed variables."""
        return Atom(self.relation, tuple(names[each] for each in self.variables))

    def projection(self, variables: Iterable[str]) -> Atom:
        """Return the distinct combinations of values that some variables have in the relation."""
        wanted = set(variables)
        kept = {
            variable: column
            for variable, column in zip(self.variables, self.relation.schema.names, strict=True)
            if variable in wanted
        }
        return Atom(self.relation.distinct(*kept.values()), tuple(kept))


def delta_query(atoms: Sequence[Atom], where: Sequence[Expr] = (), variant: Variant = "least") -> Collection:
    """Return the matches of a motif: the assignments of values to variables with a row in every atom.

    `delta_query([Atom(e, ("a", "b")), Atom(e, ("b", "c")), Atom(e, ("a", "c"))])` finds triangles. where: conditions on
    the variables, such as `col.a < col.b`.
    """
    if not atoms:
        raise DeltamarkError("a motif without atoms", "()", "name at least one relation")
    if variant not in VARIANTS:
        raise unknown("variant", variant, VARIANTS)
    simple = [each.simple() for each in atoms]
    _check_conditions(simple, where)
    if variant == "binary":
        found = _binary_joins(simple, where).select(*ordered(simple))
    else:
        check_types(simple if len(simple) > 1 else ())
        whole = with_projections(simple)
        found, *more = (_rule(whole, first, where, variant) for first in range(len(whole)))
        found = found.concat(*more)
    return _at_most(found, MAX_ROWS)


def extending(
    seeds: Collection, atoms: Sequence[Atom], where: Sequence[Expr] = (), variant: Variant = "least"
) -> Collection:
    """Return the matches that begin with the rows of `seeds` in place of the first atom's.

    All relations must be complete before the first seed arrives.
    """
    simple = [each.simple() for each in atoms]
    _check_conditions(simple, where)
    check_types(simple)
    whole = [Atom(seeds, atoms[0].variables).simple(), *with_projections(simple)[1:]]
    return _at_most(_rule(whole, 0, where, variant), MAX_ROWS)


def _check_conditions(atoms: Sequence[Atom], where: Sequence[Expr]) -> None:
    order = ordered(atoms)
    for name in (name for condition in where for name in _columns(condition)):
        if name not in order:
            raise unknown("variable", name, order)


def ordered(atoms: Iterable[Atom]) -> tuple[str, ...]:
    """Return the variables of atoms in the order in which they are first named."""
    return tuple(dict.fromkeys(variable for each in atoms for variable in each.variables))


def _at_most(rows: Collection, most: int) -> Collection:
    schema = rows.schema
    return Collection(replace(rows.node, schema=replace(schema, rows=min(schema.rows, most))))


def _rule(atoms: Sequence[Atom], first: int, where: Sequence[Expr], variant: Variant) -> Collection:
    """Return one rule: the changes of one atom, extended by the others.

    Columns are named by their position, so that rules with an equal beginning share its nodes.
    """
    proposer = 0 if variant == "fixed" else None
    column_of = _numbered(atoms[first].variables)
    rows = _filtered(atoms[first].named(column_of).rows(), _named(where, column_of), set())
    for new, now in steps(atoms, first)[0]:
        before, column_of = set(rows.schema.names), _numbered(dict.fromkeys([*column_of, new]))
        parts: list[tuple[Atom, Version]] = [
            (atoms[each].named(column_of), "new" if each > first else "old") for each in now
        ]
        rows = _filtered(extended(rows, column_of[new], parts, proposer), _named(where, column_of), before)
    return rows.select(**{name: col[column_of[name]] for name in ordered(atoms)})


def _numbered(variables: Iterable[str]) -> dict[str, str]:
    return {variable: f"v{number}" for number, variable in enumerate(variables)}


def _named(conditions: Iterable[Expr], column_of: Mapping[str, str]) -> list[Expr]:
    """Rewrite the conditions whose variables are all known as conditions on columns."""
    known = [each for each in conditions if _columns(each) <= set(column_of)]
    return [Expr(each.node.with_columns(lambda name: tree.Column(column_of[name]))) for each in known]


def steps(atoms: Sequence[Atom], first: int) -> tuple[list[tuple[str, list[int]]], set[str]]:
    """Plan a rule as steps: the next variable, and the atoms in which it is the only unknown variable.

    Return the steps, and the variables that are known when no further step is possible.
    """
    bound, left = set(atoms[first].variables), [each for each in range(len(atoms)) if each != first]
    found = []
    while left:
        ready = {each: set(atoms[each].variables) - bound for each in left}
        known = [atoms[each].variables[-1] for each, missing in ready.items() if not missing]
        single = [min(missing) for missing in ready.values() if len(missing) == 1]
        if not known and not single:
            break
        new = known[0] if known else max(dict.fromkeys(single), key=single.count)
        now = [each for each in left if new in atoms[each].variables and ready[each] <= {new}]
        found.append((new, now))
        bound.add(new)
        left = [each for each in left if each not in now]
    return found, bound


def with_projections(atoms: Sequence[Atom]) -> list[Atom]:
    """Add projections of atoms until every rule can bind one variable at a time.

    An atom with two or more unknown variables cannot propose values for one of them. Its projection to the known
    variables and one unknown one can, and adding it as an atom does not change the matches.
    """
    found = list(atoms)
    while True:
        for first in range(len(found)):
            taken, bound = steps(found, first)
            used = {first, *(each for _, now in taken for each in now)}
            stuck = [each for number, each in enumerate(found) if number not in used]
            if stuck:
                best = max(stuck, key=lambda each: len(bound & set(each.variables)))
                new = next(each for each in best.variables if each not in bound)
                found.append(best.projection([*(bound & set(best.variables)), new]))
                break
        else:
            return found


def extended(rows: Collection, new: str, atoms: Sequence[tuple[Atom, Version]], proposer: int | None) -> Collection:
    """Extend rows by the values of a variable that all atoms have, in their old or new version."""
    indexes, schema = [], rows.schema
    for atom, version in atoms:
        column_of = dict(zip(atom.variables, atom.relation.schema.names, strict=True))
        value = column_of.pop(new)
        row_keys, keys = tuple(column_of), tuple(column_of.values())
        indexes.append(IndexRead(atom.relation.node, row_keys, keys, value, version))
        schema = replace(schema, rows=min(schema.rows * atom.relation.schema.rows, MAX_ROWS))
    if new not in rows.schema:
        field = Field(new, atoms[0][0].relation.schema[indexes[0].value])
        schema = Schema((*schema.fields, field), schema.rows)
    return Collection(Extend(rows.node, new, tuple(indexes), proposer, schema=schema))


def check_types(atoms: Sequence[Atom]) -> None:
    """Raise an error for a variable whose columns have different types, or types that cannot be indexed."""
    types: dict[str, Type] = {}
    for atom in atoms:
        for name, field in zip(atom.variables, atom.relation.schema.fields, strict=True):
            mine, theirs = types.setdefault(name, field.type), field.type
            actual = f"{name}: {mine} and {theirs}"
            if mine.comparable != theirs.comparable or mine.scale != theirs.scale:
                raise DeltamarkError("a variable of different types", actual, "use columns of the same type")
            if theirs.nullable:
                raise DeltamarkError("a variable that may be missing", actual, "give it a value by .coalesce(...)")
            if theirs.kind == "text":
                raise DeltamarkError("texts cannot be indexed", actual, "number them first")


def _filtered(rows: Collection, where: Sequence[Expr], before: set[str]) -> Collection:
    """Apply the conditions whose columns are complete only now."""
    for condition in where:
        columns = _columns(condition)
        if columns <= set(rows.schema.names) and not columns <= before:
            rows = rows.where(condition)
    return rows


def _columns(expr: Expr) -> set[str]:
    """Return the names of the columns in an expression."""
    return set(expr.node.columns())


def _binary_joins(atoms: Sequence[Atom], where: Sequence[Expr]) -> Collection:
    """Join whole collections. The next one is that which shares the most variables with those joined before."""
    first, *left = atoms
    rows = _filtered(first.rows(), where, set())
    while left:
        before = set(rows.schema.names)
        atom = max(left, key=lambda each: len(before & set(each.variables)))
        left.remove(atom)
        rows = rows.join(atom.rows(), on=[name for name in atom.variables if name in before])
        rows = _filtered(rows, where, before)
    return rows
