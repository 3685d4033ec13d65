"""Plan nodes by terms: filters, projections, and joins by computed values.

The methods of collections bind expressions to terms. SQL and the passes over plans have terms already.
"""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.plan.terms import TRUE, Column, Term, all_of, column, conjuncts, substituted
from deltamark.dataflow.scalars.comparisons import compared
from deltamark.dataflow.scalars.expressions import Comparator
from deltamark.dataflow.scalars.values import known_column, simplified, surely, value_of_term
from deltamark.dataflow.types import Field, Schema, Type


def fresh(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken: the name itself, or with a number."""
    known, number, new = set(taken), 1, name
    while new in known:
        number += 1
        new = f"{name}_{number}"
    return new


def columns_of(node: Node) -> dict[str, Column]:
    """Return the columns of a node as terms."""
    return {field.name: Column(field.name, field.type) for field in node.schema.fields}


def filtered(node: Node, *conditions: Term) -> Node:
    """Keep the rows that satisfy all conditions, in the filter below, or below a projection, if there is one."""
    parts = [part for each in conditions for part in conjuncts(each) if part is not TRUE]
    if not parts:
        return node
    if isinstance(node, Project) and _are_copied(node, parts):
        terms = node.terms
        rows = filtered(node.rows, *(substituted(each, terms) for each in parts))
        return replace(node, rows=rows)
    if isinstance(node, Filter):
        return selected(node.rows, *conjuncts(node.condition), *parts)
    return selected(node, *parts)


def selected(node: Node, *conditions: Term) -> Node:
    """Keep the rows that satisfy all conditions. Each part is tested once, those with the fewest operations first."""
    parts = [part for each in conditions for part in conjuncts(each) if part is not TRUE]
    if not parts:
        return node
    condition = all_of(sorted(dict.fromkeys(parts), key=lambda each: each.operations))
    return Filter(node, condition, schema=node.schema)


def is_renaming(node: Project) -> bool:
    """Return whether a projection only renames columns or leaves some out."""
    return len(node.copied) == len(node.columns)


def _are_copied(node: Project, terms: Iterable[Term]) -> bool:
    """Return whether terms read only columns that a projection copies."""
    return all(each.columns <= node.copied.keys() for each in terms)


def projected(node: Node, terms: Mapping[str, Term]) -> Node:
    """Return a column for each term."""
    if isinstance(node, Project) and _are_copied(node, terms.values()):
        below = node.terms
        node, terms = node.rows, {name: substituted(term, below) for name, term in terms.items()}
    fields = tuple(Field(name, term.type) for name, term in terms.items())
    return Project(node, tuple(terms.items()), schema=Schema(fields, node.schema.rows))


def only(node: Node, names: Sequence[str]) -> Node:
    """Keep some columns."""
    if node.schema.names == tuple(names):
        return node
    return projected(node, {name: column(name, node.schema[name]) for name in names})


def renamed_apart(node: Node, taken: Names[str]) -> tuple[Node, dict[str, Term]]:
    """Rename the columns whose names are taken. Return also, for each old name, the column."""
    new: dict[str, str] = {}
    for name in node.schema.names:
        new[name] = fresh(name, [*taken, *node.schema.names, *new.values()]) if name in taken else name
    columns = columns_of(node)
    terms = {new[name]: term for name, term in columns.items()}
    if any(old != other for old, other in new.items()):
        node = projected(node, terms)
    return node, {name: column(new[name], term.type) for name, term in columns.items()}


def with_columns(node: Node, terms: Sequence[Term], prefix: str, taken: Iterable[str] = ()) -> tuple[Node, list[str]]:
    """Return a node with a column for each term, and the names; terms that are columns have one."""
    new: dict[str, Term] = {}
    names = []
    for term in terms:
        if isinstance(term, Column):
            names.append(term.name)
            continue
        name = next((old for old, other in new.items() if other is term), None)
        if name is None:
            name = fresh(prefix, [*node.schema.names, *new, *taken])
            new[name] = term
        names.append(name)
    return (projected(node, {**columns_of(node), **new}) if new else node), names


def distinct(node: Node, names: Sequence[str]) -> Node:
    """Return each combination of values of some columns once."""
    return Collection(only(node, names)).distinct().node


def paired(
    left: Node, right: Node, equal: Sequence[tuple[Term, Term]], conditions: Sequence[Term], taken: Iterable[str] = ()
) -> tuple[Node, dict[Term, Term]]:
    """Return the pairs of rows that satisfy all conditions; NULL equals NULL in those of `equal`.

    The columns of both sides have different names. Return also the terms that replace columns of the right side which
    the result does not have. taken: names that no new column gets.
    """
    of_left, of_right, others = sides(left, right, conditions)
    left, right = filtered(left, *of_left), filtered(right, *of_right)
    left, left_keys = with_columns(left, [mine for mine, _ in equal], "key", [*right.schema.names, *taken])
    right, right_keys = with_columns(right, [theirs for _, theirs in equal], "key", [*left.schema.names, *taken])
    pairs, places = joined(left, right, left_keys, right_keys)
    return filtered(pairs, *(simplified(each, places) for each in others)), places


def sides(left: Node, right: Node, conditions: Iterable[Term]) -> tuple[list[Term], list[Term], list[Term]]:
    """Sort conditions into those on left rows, those on right rows, and those on pairs."""
    found: tuple[list[Term], list[Term], list[Term]] = [], [], []
    for each in conditions:
        if each.columns <= set(left.schema.names):
            found[0].append(each)
        else:
            found[1 if each.columns <= set(right.schema.names) else 2].append(each)
    return found


def joined(
    left: Node, right: Node, left_keys: Sequence[str], right_keys: Sequence[str]
) -> tuple[Node, dict[Term, Term]]:
    """Pair the rows of nodes, whose columns have different names, by columns, where NULL equals NULL.

    Return also the terms that replace the right keys, which the result does not have. A column that is compared twice
    is a key once, and a condition.
    """
    on: dict[str, str] = {}
    twice: list[tuple[str, str]] = []
    for mine, theirs in zip(left_keys, right_keys, strict=True):
        if on.get(mine) != theirs:
            if mine in on or theirs in on.values():
                twice.append((mine, theirs))
            else:
                on[mine] = theirs
    pairs = Collection(left).join(Collection(right), on, null_keys=True).node
    kept = {theirs: mine for mine, theirs in on.items()}
    conditions = []
    for mine, theirs in twice:
        name = kept.get(theirs, theirs)
        conditions.append(same(column(mine, pairs.schema[mine]), column(name, pairs.schema[name])))
    places = {
        column(theirs, right.schema[theirs]): _key(left, mine, right.schema[theirs]) for mine, theirs in on.items()
    }
    return filtered(pairs, *conditions), places


def _key(left: Node, name: str, right: Type) -> Term:
    """Return the left key, which a right key equals. It is not NULL if the right one cannot be."""
    type_ = left.schema[name]
    return column(name, type_) if right.nullable else known_column(name, type_)


def same(left: Term, right: Term) -> Term:
    """Return the condition that two terms are equal, where NULL equals NULL."""
    return surely(compared(Comparator.NOT_DISTINCT, value_of_term(left), value_of_term(right)).true)


def merged(node: Project) -> Project:
    """Leave out the projection below another one that reads only columns which it copies."""
    below = node.rows
    if not isinstance(below, Project) or not _are_copied(below, node.terms.values()):
        return node
    columns = tuple((name, substituted(term, below.terms)) for name, term in node.columns)
    return replace(node, rows=below.rows, columns=columns)
