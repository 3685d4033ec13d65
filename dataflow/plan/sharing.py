"""Filters that are left to readers: arrangements of the same rows by the same key may be one, whatever their filters.

The one arrangement has all rows, and a word a row says which of the filters it passes. It takes the place of the others
where it is smaller, even if each row that a join then looks at in vain counts as a word. All is estimated: from the
rows that inputs are declared with, and from how much of the declared range of its columns a filter keeps, as if values
were spread evenly.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltamark.dataflow.codegen.program import DIRECT_FREE, DIRECT_SHARE, key_range
from deltamark.dataflow.operators.linear import others, ranges
from deltamark.dataflow.plan.nodes import Node, base_rows
from deltamark.dataflow.plan.terms import Term, both, column, conjuncts, passes, substituted
from deltamark.dataflow.types import Type

LINK, WORD, HEAD, HASHED_KEY, PAGE = 4, 8, 8, 64, 2 << 20
"""Bytes: of a row's link, of a column, of a key's two lists, of a key that is hashed, of a page that a head is in."""

MOST_CONDITIONS = 60

WORTH = 1 << 20
"""Bytes that one arrangement must save."""

EITHER, SELDOM = 0.5, 0.1
"""How many rows are taken to have less in one column than in another; to meet what nothing is known of."""


@dataclass(frozen=True)
class Met:
    """What a join meets on one side: a node, what the columns that it needs are there, and which rows it reads."""

    node: Node
    terms: Mapping[str, Term]
    condition: Term | None = None

    def keys(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.terms[name].value for name in names)

    def of(self, names: Iterable[str]) -> tuple[Term, ...]:
        return tuple(self.terms[name] for name in names)

    @property
    def columns(self) -> list[str]:
        """The columns of the node that are needed."""
        terms = [*self.terms.values(), *([] if self.condition is None else [self.condition])]
        return list(dict.fromkeys(name for term in terms for name in sorted(term.columns)))


def met(node: Node, keys: Sequence[str], others: Sequence[str], through: Sequence[str]) -> Met:
    """Look through operators that pick and compute columns, and through filters if those are named, too."""
    found = Met(node, {name: column(name, node.schema[name]) for name in (*keys, *others)})
    while found.node.op in through:
        below = _below_where(found) if found.node.op == "where" else _below_select(found, keys)
        if below is None:
            break
        found = below
    return found


def _below_where(at: Met) -> Met | None:
    """Not where other rows might fail to compute, or would be stored as texts."""
    if any(_fails(term) or term.type.kind == "text" for term in at.terms.values()):
        return None
    return Met(at.node.inputs[0], at.terms, both(at.condition, at.node.params))


def _fails(term: Term) -> bool:
    return term.op == "substring" or any(map(_fails, term.args))


def _below_select(at: Met, keys: Sequence[str]) -> Met | None:
    terms = dict(at.node.params)
    if any(term.op != "column" for term in at.terms.values()):
        return None
    below = {name: terms[term.value] for name, term in at.terms.items()}
    used = [] if at.condition is None else at.condition.columns
    if any(below[name].op != "column" for name in keys) or any(terms[name].op != "column" for name in used):
        return None
    return Met(at.node.inputs[0], below, at.condition and substituted(at.condition, terms))


@dataclass(frozen=True)
class Asked:
    """What one side of a join asks for: its keys, what else, and where that is: filtered, and below the filter."""

    names: tuple[str, ...]
    types: tuple[Type, ...]
    others: tuple[str, ...]
    above: Met
    below: Met
    meets: float
    """Rows of the other side."""

    def in_vain(self) -> float:
        """How many rows that it does not want would be looked at."""
        return 0 if self.below.condition is None else self.meets * (1 - share(self.below.condition))


@dataclass(frozen=True)
class Choice:
    """One arrangement of a node by keys, or several, each with its filter: how many these are, bytes, and rows that are
    looked at in vain.
    """

    node: Node
    keys: tuple[str, ...]
    apart: int
    bytes_apart: int
    bytes_as_one: int
    in_vain: int
    filters: Sequence[Term]
    """Those that are left to readers."""


Side = tuple[Node, int]
"""A side of a join."""


def choose(asked: Mapping[Side, Asked]) -> tuple[dict[Side, Term], list[Choice]]:
    """Say which sides of joins read an arrangement that has more rows than they want, and what was weighed."""
    groups: dict[object, list[Side]] = defaultdict(list)
    for side, each in asked.items():
        groups[each.below.node, each.below.keys(each.names), each.types].append(side)
    residual: dict[Side, Term] = {}
    choices = []
    for sides in groups.values():
        found = _weighed([asked[side] for side in sides])
        if found is not None:
            choices.append(found)
            conditions = {side: asked[side].below.condition for side in sides}
            residual |= {side: each for side, each in conditions.items() if each is not None and each in found.filters}
    return residual, choices


def _weighed(asked: Sequence[Asked]) -> Choice | None:
    plain = [each for each in asked if each.below.condition is None]
    filtered: dict[Term, list[Asked]] = defaultdict(list)
    for each in asked:
        if each.below.condition is not None:
            filtered[each.below.condition].append(each)
    if not filtered or len(filtered) + bool(plain) == 1:
        return None
    alone = {condition: _size(each, condition) for condition, each in filtered.items()}

    def size(left: Sequence[Term]) -> int:
        """Count the bytes if some filters are left to readers."""
        shared = [*plain, *(each for condition in left for each in filtered[condition])]
        one = _size(shared, None, WORD * bool(left)) if shared else 0
        return one + sum(size for condition, size in alone.items() if condition not in left)

    def looks(left: Sequence[Term]) -> int:
        return int(sum(each.in_vain() for condition in left for each in filtered[condition]))

    def cost(left: Sequence[Term]) -> int:
        return size(left) + WORD * looks(left)

    every = list(filtered)[:MOST_CONDITIONS]
    left = every
    while left:
        fewer = min(([each for each in left if each is not other] for other in left), key=cost)
        if cost(fewer) > cost(left):
            break
        left = fewer
    left = left if cost(left) + WORTH <= cost([]) else []
    of, apart = asked[0].below, len(filtered) + bool(plain)
    return Choice(of.node, of.keys(asked[0].names), apart, size([]), size(left or every), looks(left or every), left)


def _size(asked: Sequence[Asked], condition: Term | None, more: int = 0) -> int:
    """Estimate the bytes of an arrangement of those rows that meet a condition."""
    node, types = asked[0].below.node, asked[0].types
    count = expected(node) * (1.0 if condition is None else share(condition))
    terms = {term for each in asked for term in each.below.of(each.others)}
    keys = math.prod(radix for _, radix in key_range(types))
    if keys < DIRECT_SHARE * base_rows(node) + DIRECT_FREE:
        heads = min(HEAD * keys, PAGE * count)
    else:
        heads = HASHED_KEY * min(keys, count)
    return int(heads + count * (LINK + WORD * len(terms) + more))


def expected(node: Node) -> float:
    """Estimate how many rows a node has."""
    found = [expected(each) for each in node.inputs] or [node.schema.rows]
    most = found[0]
    if node.op == "where":
        most *= share(node.params)
    elif node.op == "join":
        types = [node.inputs[0].schema[name] for name in node.params[0]]
        keys = math.prod(each.high - each.low + 1 for each in types)
        most *= found[1] / max(min(keys, max(found)), 1)
    elif node.op == "concat":
        most = sum(found)
    return min(most, node.schema.rows)


def share(condition: Term) -> float:
    """Estimate how many of all rows meet a condition."""
    terms, types = conjuncts(condition), dict(_columns(condition))
    kept = [_spread(types[name], low, high) for name, low, high in ranges(terms)]
    return math.prod(kept) * math.prod(map(_share, others(terms)))


def _columns(term: Term) -> Iterator[tuple[str, Type]]:
    if term.op == "column":
        yield term.value, term.type
    for each in term.args:
        yield from _columns(each)


def _spread(of: Type, low: int, high: int) -> float:
    """Say how much of a column's range lies in another one."""
    return max(min(high, of.high) - max(low, of.low) + 1, 0) / (of.high - of.low + 1)


def _share(term: Term) -> float:
    found = SELDOM
    match term.op:
        case "or":
            found = 1 - math.prod(1 - share(each) for each in term.args)
        case "not":
            found = 1 - share(term.args[0])
        case "lookup":
            found = sum(term.value) / len(term.value)
        case "member":
            of = term.args[0].type
            found = min(len(term.value) / (of.high - of.low + 1), 1.0)
        case "less":
            found = EITHER
        case "equal":
            found = 1 / max(each.type.high - each.type.low + 1 for each in term.args)
    return found


def told(conditions: Sequence[Term]) -> list[Term]:
    """Return what an arrangement stores for filters that are left to its readers."""
    return [passes(conditions)] if conditions else []
