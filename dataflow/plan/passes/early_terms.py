"""Early terms: the pass that computes a term before a join, if the join then stores fewer columns.

`lines.join(orders, on="order").aggregate(by="day", revenue=(col.price * (1 - col.discount)).sum())` stores one product
for each line in the arrangement of the join, instead of a price and a discount.

The pass takes plans by name and returns plans. It repeats until no term moves, because a term may cross several joins,
and its parts may cross more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from deltamark.dataflow.plan.interning import term_digest
from deltamark.dataflow.plan.memo import kept
from deltamark.dataflow.plan.nodes import Aggregate, Filter, Join, Node, Project
from deltamark.dataflow.plan.passes.pruning import prune
from deltamark.dataflow.plan.term_sql import sql
from deltamark.dataflow.plan.terms import Term, column, replaced, substituted
from deltamark.dataflow.types import Field, Schema

ARITHMETIC = ("add", "subtract", "multiply")


def with_early_terms(plans: Mapping[str, Node]) -> Mapping[str, Node]:
    """Compute terms below joins where that saves columns."""
    pruned = prune(plans)
    new: dict[Node, Node] = {}
    for node in pruned.nodes:
        inputs = [new.get(each, each) for each in node.inputs]
        new[node] = node if inputs == list(node.inputs) else node.with_inputs(inputs)
        if node not in pruned.looping:
            new[node] = _with_early_terms(new[node], pruned.columns[node])
    result = {name: new[plan] for name, plan in plans.items()}
    return plans if result == plans else with_early_terms(result)


def _with_early_terms(node: Node, required: Sequence[str]) -> Node:
    """Move terms of a projection or an aggregate below the join that it reads."""
    match node:
        case Project():
            early = _early_terms(node.rows, [node.terms[name] for name in required])
            columns = tuple((name, replaced(term, early)) for name, term in node.columns)
            return replace(node, rows=_with_columns(node.rows, early), columns=columns) if early else node
        case Aggregate():
            keys = [column(name, node.rows.schema[name]) for name in node.keys]
            early = _early_terms(node.rows, [*keys, *node.terms])
            sums = tuple(replace(each, term=each.term and replaced(each.term, early)) for each in node.sums)
            return replace(node, rows=_with_columns(node.rows, early), sums=sums) if early else node
    return node


def _early_terms(rows: Node, terms: Sequence[Term]) -> Mapping[Term, Term]:
    """Return the terms that are worth computing before the join, each with the column that replaces it."""
    conditions = []
    join = rows
    while isinstance(join, Filter):
        conditions.append(join.condition)
        join = join.rows
    if not isinstance(join, Join):
        return {}
    early = {each: column(_name(each), each.type) for term in terms for each in _of_one_side(join, term)}
    before = _columns([*terms, *conditions])
    after = _columns([*(replaced(term, early) for term in terms), *conditions])
    return early if len(after) < len(before) else {}


def _name(term: Term) -> str:
    """Return a name that no other column has: the text of a term does not tell all terms apart."""
    return f"{term_digest(term)}\0{sql(term)}"


def _columns(terms: Iterable[Term]) -> frozenset[str]:
    return frozenset[str]().union(*(each.columns for each in terms))


def _of_one_side(join: Join, term: Term) -> Iterator[Term]:
    """Yield the largest parts of a term that are arithmetic on several columns of one side."""
    remaining, seen = [term], set[Term]()
    while remaining:
        part = remaining.pop()
        if part in seen:
            continue
        seen.add(part)
        if len(part.columns) > 1 and _is_arithmetic(part) and _side(join, part) is not None:
            yield part
        else:
            remaining += reversed(part.args)


@kept
def _is_arithmetic(term: Term) -> bool:
    if term.op in ("column", "literal"):
        return term.type.kind == "int" and not term.type.nullable
    return term.op in ARITHMETIC and all(map(_is_arithmetic, term.args))


def _side(join: Join, term: Term) -> int | None:
    """Return the side of a join that has all columns of a term."""
    if term.columns <= set(join.left.schema.names):
        return 0
    return 1 if term.columns <= set(join.right.schema.names) - {*join.right_keys} else None


def _with_columns(rows: Node, early: Mapping[Term, Term]) -> Node:
    for term, name in early.items():
        rows = _with_column(rows, name.value, term)
    return rows


def _with_column(rows: Node, name: str, term: Term) -> Node:
    """Compute a term below the joins whose one side has all of its columns, as an additional column."""
    if name in rows.schema:
        return rows
    schema = Schema((*rows.schema.fields, Field(name, term.type)), rows.schema.rows)
    match rows:
        case Filter(rows=Join() | Filter()):
            return replace(rows, rows=_with_column(rows.rows, name, term), schema=schema)
        case Join() if _side(rows, term) == 0:
            return replace(rows, left=_with_column(rows.left, name, term), schema=schema)
        case Join() if _side(rows, term) == 1:
            return replace(rows, right=_with_column(rows.right, name, term), schema=schema)
        case Project():
            return replace(rows, columns=(*rows.columns, (name, substituted(term, rows.terms))), schema=schema)
    copies = tuple((each, column(each, rows.schema[each])) for each in rows.schema.names)
    return Project(rows, (*copies, (name, term)), schema=schema)
