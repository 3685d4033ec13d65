"""Motifs: conjunctive queries over any relations, maintained by delta queries with worst-case optimal extensions.

A motif is a list of atoms, a relation and a variable for each of its columns: triangles are e(a,b), e(b,c), e(a,c).
There is one rule for each atom. It takes the changes of that atom's relation and extends them by one variable after
another, by the values that all atoms have which then know all their variables. Nothing is kept but indexes of the
relations: an atom's forward one and its reverse one serve all rules, and all atoms of the same relation.

The rules act as if one after the other. Changes of the same time are counted once because a rule sees atoms before its
own as they are at the end of the time, and those behind it as they were before. Multiplicities are those of bags.
Rules of a symmetric motif begin alike: what they have in common is found once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import Expr, col
from deltamark.dataflow.plan.nodes import node
from deltamark.dataflow.types import Field, Schema, Type
from deltamark.errors import DeltamarkError, unknown

Variant = Literal["least", "fixed", "binary"]
"""Who proposes values: the atom that has fewest, or always the first one; binary joins whole collections instead."""
VARIANTS: tuple[Variant, ...] = get_args(Variant)

MOST_ROWS = 1 << 62


@dataclass(frozen=True)
class Atom:
    """A relation, and the variables that its columns are."""

    relation: Collection
    variables: tuple[str, ...]

    def __post_init__(self) -> None:
        names = self.relation.schema.names
        if len(self.variables) != len(names) or not names:
            actual = f"({', '.join(self.variables)}) for ({', '.join(names)})"
            raise DeltamarkError("not a variable for each column", actual, "name as many variables as columns")

    def simple(self) -> Atom:
        """Return an atom with the same rows whose variables are different ones."""
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
        """Return the relation with variables for names."""
        return self.relation.rename(**dict(zip(self.variables, self.relation.schema.names, strict=True)))

    def named(self, names: Mapping[str, str]) -> Atom:
        """Return the atom with other names for its variables."""
        return Atom(self.relation, tuple(names[each] for each in self.variables))

    def projection(self, variables: Iterable[str]) -> Atom:
        """Return the values that some variables have together."""
        wanted = set(variables)
        kept = {
            variable: column
            for variable, column in zip(self.variables, self.relation.schema.names, strict=True)
            if variable in wanted
        }
        return Atom(self.relation.distinct(*kept.values()), tuple(kept))


def delta_query(atoms: Sequence[Atom], where: Sequence[Expr] = (), variant: Variant = "least") -> Collection:
    """Return all ways to give values to the variables such that every atom has such a row, and conditions hold."""
    if not atoms:
        raise DeltamarkError("a motif without atoms", "()", "name at least one relation")
    if variant not in VARIANTS:
        raise unknown("variant", variant, VARIANTS)
    simple = [each.simple() for each in atoms]
    _check_conditions(simple, where)
    if variant == "binary":
        found = _joined(simple, where).select(*ordered(simple))
    else:
        check_types(simple if len(simple) > 1 else ())
        whole = with_projections(simple)
        found, *more = (_found(whole, first, where, variant) for first in range(len(whole)))
        found = found.concat(*more)
    return _at_most(found, MOST_ROWS)


def extending(
    seeds: Collection, atoms: Sequence[Atom], where: Sequence[Expr] = (), variant: Variant = "least"
) -> Collection:
    """Return what rows of the first atom become that come as `seeds`, once all relations are there and at rest."""
    simple = [each.simple() for each in atoms]
    _check_conditions(simple, where)
    check_types(simple)
    whole = [Atom(seeds, atoms[0].variables).simple(), *with_projections(simple)[1:]]
    return _at_most(_found(whole, 0, where, variant), MOST_ROWS)


def _check_conditions(atoms: Sequence[Atom], where: Sequence[Expr]) -> None:
    order = ordered(atoms)
    for name in (name for condition in where for name in _columns(condition)):
        if name not in order:
            raise unknown("variable", name, order)


def ordered(atoms: Iterable[Atom]) -> tuple[str, ...]:
    """Return the variables of atoms in the order in which they are first named."""
    return tuple(dict.fromkeys(variable for each in atoms for variable in each.variables))


def _at_most(rows: Collection, most: int) -> Collection:
    at = rows.node
    return Collection(node(at.op, at.inputs, at.params, replace(at.schema, rows=min(at.schema.rows, most))))


def _found(atoms: Sequence[Atom], first: int, where: Sequence[Expr], variant: Variant) -> Collection:
    """Extend the changes of one atom by those of the others.

    Columns are named by the order in which they come, so that rules that begin alike have nodes in common.
    """
    proposer = 0 if variant == "fixed" else None
    column_of = _numbered(atoms[first].variables)
    rows = _kept(atoms[first].named(column_of).rows(), _named(where, column_of), set())
    for new, now in steps(atoms, first)[0]:
        before, column_of = set(rows.schema.names), _numbered(dict.fromkeys([*column_of, new]))
        parts = [(atoms[each].named(column_of), "new" if each < first else "old") for each in now]
        rows = _kept(extended(rows, column_of[new], parts, proposer), _named(where, column_of), before)
    return rows.select(**{name: col[column_of[name]] for name in ordered(atoms)})


def _numbered(variables: Iterable[str]) -> dict[str, str]:
    return {variable: f"v{number}" for number, variable in enumerate(variables)}


def _named(conditions: Iterable[Expr], column_of: Mapping[str, str]) -> list[Expr]:
    """Write the conditions on variables that have columns as ones on these."""

    def named(expr: Any) -> Any:
        if not isinstance(expr, Expr):
            return expr
        return col[column_of[expr.args[0]]] if expr.op == "column" else Expr(expr.op, *map(named, expr.args))

    return [named(each) for each in conditions if _columns(each) <= set(column_of)]


def steps(atoms: Sequence[Atom], first: int) -> tuple[list[tuple[str, list[int]]], set[str]]:
    """Plan a rule: a variable, and the atoms that have it and nothing else that is new, one step after another.

    Return also the variables that are bound when no such step is left.
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
    """Add what is needed for every rule to go on by one variable at a time.

    A relation of which two columns or more are not known yet cannot say anything about one of them alone; its
    projection can, and is an atom like any other, for it changes nothing that a row of it must be there.
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


def extended(rows: Collection, new: str, atoms: Sequence[tuple[Atom, str]], proposer: int | None) -> Collection:
    """Extend rows by a variable: by the values that all atoms have, as they are before or after the rows' times."""
    parts, schema = [], rows.schema
    for atom, sees in atoms:
        column_of = dict(zip(atom.variables, atom.relation.schema.names, strict=True))
        value = column_of.pop(new)
        parts.append((tuple(column_of), tuple(column_of.values()), value, sees))
        schema = replace(schema, rows=min(schema.rows * atom.relation.schema.rows, MOST_ROWS))
    if new not in rows.schema:
        field = Field(new, atoms[0][0].relation.schema[parts[0][2]])
        schema = Schema((*schema.fields, field), schema.rows)
    inputs = (rows.node, *(atom.relation.node for atom, _ in atoms))
    return Collection(node("extend", inputs, (new, tuple(parts), proposer), schema))


def check_types(atoms: Sequence[Atom]) -> None:
    """See that each variable can be extended by: all its columns are of one type that can be indexed."""
    types: dict[str, Type] = {}
    for atom in atoms:
        for name, field in zip(atom.variables, atom.relation.schema.fields, strict=True):
            mine, theirs = types.setdefault(name, field.type), field.type
            actual = f"{name}: {mine} and {theirs}"
            if mine.comparable != theirs.comparable or mine.scale != theirs.scale:
                raise DeltamarkError("a variable of different types", actual, "convert one of the columns")
            if theirs.nullable:
                raise DeltamarkError("a variable that may be missing", actual, "give it a value by .coalesce(...)")
            if theirs.kind == "text":
                raise DeltamarkError("texts cannot be indexed", actual, "number them first")


def _kept(rows: Collection, where: Sequence[Expr], before: set[str]) -> Collection:
    """Apply the conditions that can be applied now, and could not before."""
    for condition in where:
        columns = _columns(condition)
        if columns <= set(rows.schema.names) and not columns <= before:
            rows = rows.where(condition)
    return rows


def _columns(expr: object) -> set[str]:
    """Name the columns of an expression."""
    if not isinstance(expr, Expr):
        return set()
    if expr.op == "column":
        return {expr.args[0]}
    return set().union(*map(_columns, expr.args))


def _joined(atoms: Sequence[Atom], where: Sequence[Expr]) -> Collection:
    """Join whole collections, as long as one can with those that share variables with what is joined already."""
    first, *left = atoms
    rows = _kept(first.rows(), where, set())
    while left:
        before = set(rows.schema.names)
        atom = max(left, key=lambda each: len(before & set(each.variables)))
        left.remove(atom)
        rows = rows.join(atom.rows(), on=[name for name in atom.variables if name in before])
        rows = _kept(rows, where, before)
    return rows
