"""Sharing: the third pass finds the arrangements that joins read, and which of them can be one.

Arrangements of the same rows by the same key can be one, whatever their filters: it has all rows, with a bitmap per row
that says which of the filters the row passes, and each join applies its filter as it reads (a residual filter). One
arrangement replaces several where it is smaller, even if each row that a join then reads in vain is counted as a word.

The pass takes `Pruned` and returns `Shared`. It prunes the plans once more, because a join that reads an existing
arrangement, or one below a filter, requires other nodes. Its cost is that of pruning, and for each arrangement with f
different filters f^2 estimates of its size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from deltamark.dataflow.operators.by_key import Paired
from deltamark.dataflow.operators.distribution import Distribution, Exchange
from deltamark.dataflow.operators.extend import Extension
from deltamark.dataflow.operators.input import base_rows
from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import Node, Requirement, expected_rows
from deltamark.dataflow.passes.prune import Pruned, prune
from deltamark.dataflow.plan.direct_keys import is_direct
from deltamark.dataflow.plan.selectivity import selectivity
from deltamark.dataflow.plan.terms import Column, Term, column, conjunction, substituted
from deltamark.dataflow.types import Type, key_count, spanning

LINK_BYTES, BITMAP_BYTES = 4, 8
"""Bytes per row of an arrangement: of its link in the list of its key, and of the bits of its filters."""

DIRECT_HEAD_BYTES, HASHED_HEAD_BYTES = 8, 64
"""Bytes per key of an arrangement, for the heads of its lists: keys are addressed directly, or hashed."""

PAGE_BYTES = 2 << 20
"""A row makes resident at most one page of heads that are addressed directly."""

WASTED_PROBE_BYTES = 8
"""The cost of a row that a join reads in vain, as bytes of an arrangement; not measured."""

MAX_FILTERS = 60
"""The filters of one arrangement: each is a bit of a word."""

MIN_SAVED_BYTES = 1 << 20
"""The bytes that one arrangement must save to replace several; not measured."""

JoinSide = tuple[Paired, int]
"""A join or the like, and which of its sides: 0 is the left one, 1 the right one."""


@dataclass(frozen=True)
class JoinInput:
    """The rows that one side of a join reads: those of a node that satisfy a condition.

    terms: the columns that the join needs, as terms over the node's columns.
    """

    node: Node
    terms: Mapping[str, Term]
    condition: Term | None = None

    @cached_property
    def copied(self) -> Mapping[str, str]:
        """The columns that are columns of the node, with their names in the node."""
        return {name: term.name for name, term in self.terms.items() if isinstance(term, Column)}

    def names(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the names of key columns in the node."""
        return tuple(self.copied[name] for name in columns)

    def of(self, columns: Iterable[str]) -> tuple[Term, ...]:
        return tuple(self.terms[name] for name in columns)

    @property
    def columns(self) -> list[str]:
        """The columns of the node that are required."""
        terms = [*self.terms.values(), *([] if self.condition is None else [self.condition])]
        return list(dict.fromkeys(name for term in terms for name in sorted(term.columns)))


@dataclass(frozen=True)
class ArrangementKey:
    """The content of an arrangement: the rows of a node, after an exchange, by columns of some types.

    place: the exchange; without one, the distribution of the node, or None on one worker.
    """

    node: Node
    place: Exchange | Distribution | None
    names: tuple[str, ...]
    types: tuple[Type, ...]


@dataclass(frozen=True)
class ArrangementDemand:
    """The arrangement that one side of a join needs.

    filtered: the node to arrange if the side's filters are applied before; unfiltered: if they are left to the join;
    probes: the estimated rows of the other side.
    """

    names: tuple[str, ...]
    types: tuple[Type, ...]
    columns: tuple[str, ...]
    filtered: JoinInput
    unfiltered: JoinInput
    probes: float

    @property
    def wasted_probes(self) -> float:
        """The estimated rows that the join would read in vain if its filter were residual."""
        return 0 if self.unfiltered.condition is None else self.probes * (1 - selectivity(self.unfiltered.condition))


@dataclass(frozen=True)
class Choice:
    """The alternatives for arrangements of a node by the same keys: one for all filters, or one for each.

    apart: the number of different filters, counting the absence of a filter as one; filters: the chosen residual ones.
    """

    node: Node
    keys: tuple[str, ...]
    apart: int
    bytes_apart: int
    bytes_as_one: int
    wasted_probes: int
    filters: Sequence[Term]


Existing = TypeVar("Existing")
"""An arrangement that was built before."""

FindArrangement = Callable[[ArrangementKey, Iterable[Term], Term | None], Existing | None]
"""Finds an arrangement that stores some terms and has the bitmap of a filter."""


@dataclass(frozen=True)
class Shared(Generic[Existing]):
    """Plans with their arrangements.

    pruned: the columns that are still required; inputs: the rows that each side of a join reads; existing: the sides
    whose arrangement was built before; residual: the sides that apply a filter as they read; stored, filters: the terms
    and the residual filters of each new arrangement, by node and key columns; index_types: the types of the keys of
    indexes, by indexed node, key columns and value column, spanning those of all rows that they extend.
    """

    pruned: Pruned
    inputs: Mapping[JoinSide, JoinInput]
    existing: Mapping[JoinSide, Existing]
    residual: Mapping[JoinSide, Term]
    stored: Mapping[tuple[Node, tuple[str, ...]], Sequence[Term]]
    filters: Mapping[tuple[Node, tuple[str, ...]], Sequence[Term]]
    index_types: Mapping[tuple[Node, tuple[str, ...], str], tuple[Type, ...]]
    choices: Sequence[Choice]


def share(pruned: Pruned, find: FindArrangement[Existing], workers: int) -> Shared[Existing]:
    """Find the arrangements of all joins. Several workers share only arrangements of the same filtered rows."""
    reader = _JoinReader(find, workers, pruned.looping, {})
    result = prune(pruned.plans, reader)
    residual, choices = choose(reader.demands)
    if residual:
        reader = _JoinReader(find, workers, pruned.looping, residual)
        result = prune(pruned.plans, reader)
    return Shared(
        result, reader.inputs, reader.existing, residual, {at: list(terms) for at, terms in reader.stored.items()},
        {at: list(terms) for at, terms in reader.filters.items()}, _index_types(result.nodes), choices,
    )  # fmt: skip


@dataclass
class _JoinReader(Generic[Existing]):
    """Finds what each side of a join reads while plans are pruned."""

    find: FindArrangement[Existing]
    workers: int
    looping: frozenset[Node]
    residual: Mapping[JoinSide, Term]
    inputs: dict[JoinSide, JoinInput] = field(default_factory=dict)
    existing: dict[JoinSide, Existing] = field(default_factory=dict)
    demands: dict[JoinSide, ArrangementDemand] = field(default_factory=dict)
    stored: dict[tuple[Node, tuple[str, ...]], dict[Term, None]] = field(default_factory=lambda: defaultdict(dict))
    filters: dict[tuple[Node, tuple[str, ...]], dict[Term, None]] = field(default_factory=lambda: defaultdict(dict))

    def __call__(self, join: Paired, side: int, columns: Sequence[str]) -> Requirement | None:
        node, names = join.inputs[side], join.keys[side]
        alone = self.workers == 1
        filtered = _look_through(node, names, columns, (Project,) if alone else ())
        unfiltered = _look_through(
            node, names, columns, (Project, Filter) if alone and join not in self.looping else ()
        )
        for candidate in (filtered, unfiltered):
            key = ArrangementKey(candidate.node, None, candidate.names(names), join.key_types)
            existing = self.find(key, candidate.of(columns), candidate.condition)
            if existing is not None:
                self.inputs[join, side], self.existing[join, side] = candidate, existing
                return None
        selected = self.inputs[join, side] = unfiltered if (join, side) in self.residual else filtered
        probes = expected_rows(join.inputs[1 - side])
        demand = ArrangementDemand(names, join.key_types, tuple(columns), filtered, unfiltered, probes)
        self.demands[join, side] = demand
        arrangement_key = selected.node, selected.names(names)
        self.stored[arrangement_key].update(dict.fromkeys(selected.of(columns)))
        if selected.condition is None:
            return node, [*names, *columns]
        self.filters[arrangement_key][selected.condition] = None
        return selected.node, selected.columns


def _index_types(nodes: Iterable[Node]) -> dict[tuple[Node, tuple[str, ...], str], tuple[Type, ...]]:
    found: dict[tuple[Node, tuple[str, ...], str], tuple[Type, ...]] = {}
    for node in nodes:
        if isinstance(node, Extension):
            for each in node.reads:
                types = each.key_types(node.rows)
                at = each.rows, each.keys, each.value
                found[at] = tuple(map(spanning, found.get(at, types), types))
    return found


def choose(demands: Mapping[JoinSide, ArrangementDemand]) -> tuple[dict[JoinSide, Term], list[Choice]]:
    """Choose the sides of joins that apply their filter as they read; return also the alternatives."""
    groups: dict[object, list[JoinSide]] = defaultdict(list)
    for side, each in demands.items():
        groups[each.unfiltered.node, each.unfiltered.names(each.names), each.types].append(side)
    residual: dict[JoinSide, Term] = {}
    choices = []
    for sides in groups.values():
        choice = _choice([demands[side] for side in sides])
        if choice is not None:
            choices.append(choice)
            conditions = {side: demands[side].unfiltered.condition for side in sides}
            residual |= {side: each for side, each in conditions.items() if each is not None and each in choice.filters}
    return residual, choices


def _choice(demands: Sequence[ArrangementDemand]) -> Choice | None:
    """Choose the residual filters of an arrangement, beginning with all and dropping one after another."""
    costs = _Costs.of(demands)
    if costs.apart < 2 or not costs.filtered:
        return None
    every = list(costs.filtered)[:MAX_FILTERS]
    chosen = every
    while chosen:
        fewer = min(([each for each in chosen if each is not other] for other in chosen), key=costs.total)
        if costs.total(fewer) > costs.total(chosen):
            break
        chosen = fewer
    chosen = chosen if costs.total(chosen) + MIN_SAVED_BYTES <= costs.total([]) else []
    of, weighed = demands[0].unfiltered, chosen or every
    names = of.names(demands[0].names)
    return Choice(
        of.node, names, costs.apart, costs.size([]), costs.size(weighed), costs.wasted_probes(weighed), chosen
    )


@dataclass(frozen=True)
class _Costs:
    """The costs of arrangements for demands with the same rows and keys."""

    unfiltered: Sequence[ArrangementDemand]
    filtered: Mapping[Term, Sequence[ArrangementDemand]]
    sizes: Mapping[Term, int]

    @classmethod
    def of(cls, demands: Sequence[ArrangementDemand]) -> _Costs:
        filtered: dict[Term, list[ArrangementDemand]] = defaultdict(list)
        for each in demands:
            if each.unfiltered.condition is not None:
                filtered[each.unfiltered.condition].append(each)
        unfiltered = [each for each in demands if each.unfiltered.condition is None]
        return cls(unfiltered, filtered, {condition: _size(each, condition) for condition, each in filtered.items()})

    @property
    def apart(self) -> int:
        """The number of arrangements without residual filters."""
        return len(self.filtered) + bool(self.unfiltered)

    def size(self, residual: Sequence[Term]) -> int:
        """Estimate the bytes of all arrangements if some filters are residual."""
        shared = [*self.unfiltered, *(each for condition in residual for each in self.filtered[condition])]
        one = _size(shared, None, BITMAP_BYTES * bool(residual)) if shared else 0
        return one + sum(size for condition, size in self.sizes.items() if condition not in residual)

    def wasted_probes(self, residual: Sequence[Term]) -> int:
        return int(sum(each.wasted_probes for condition in residual for each in self.filtered[condition]))

    def total(self, residual: Sequence[Term]) -> int:
        return self.size(residual) + WASTED_PROBE_BYTES * self.wasted_probes(residual)


def _size(demands: Sequence[ArrangementDemand], condition: Term | None, bitmap: int = 0) -> int:
    """Estimate the bytes of an arrangement of the rows that satisfy a condition, with some bytes of bitmap per row."""
    node, types = demands[0].unfiltered.node, demands[0].types
    rows = expected_rows(node) * (1.0 if condition is None else selectivity(condition))
    terms = {term for each in demands for term in each.unfiltered.of(each.columns)}
    keys = key_count(types)
    if is_direct(keys - 1, base_rows(node)):
        heads = min(DIRECT_HEAD_BYTES * keys, PAGE_BYTES * rows)
    else:
        heads = HASHED_HEAD_BYTES * min(keys, rows)
    return int(heads + rows * (LINK_BYTES + sum(term.type.stored_width for term in terms) + bitmap))


def _look_through(node: Node, keys: Sequence[str], columns: Sequence[str], kinds: tuple[type[Node], ...]) -> JoinInput:
    """Replace a node by the one below it for as long as it is of some kinds, filters and projections, and can be."""
    found = JoinInput(node, {name: column(name, node.schema[name]) for name in (*keys, *columns)})
    while isinstance(found.node, kinds):
        below = _below(found, keys)
        if below is None:
            break
        found = below
    return found


def _below(above: JoinInput, keys: Sequence[str]) -> JoinInput | None:
    match above.node:
        case Filter():
            return _below_filter(above, above.node)
        case Project():
            return _below_project(above, above.node, keys)
        case _:
            return None


def _below_filter(above: JoinInput, node: Filter) -> JoinInput | None:
    """Refuse if the other rows might fail to compute, or their texts would have to be stored."""
    if any(term.may_fail or term.type.kind == "text" for term in above.terms.values()):
        return None
    return JoinInput(node.rows, above.terms, conjunction(above.condition, node.condition))


def _below_project(above: JoinInput, node: Project, keys: Sequence[str]) -> JoinInput | None:
    """Refuse if a key, or a column of the condition, is computed by the projection."""
    if len(above.copied) < len(above.terms):
        return None
    below = {name: node.terms[of] for name, of in above.copied.items()}
    used = frozenset() if above.condition is None else above.condition.columns
    if not all(isinstance(below[name], Column) for name in keys) or not used <= node.copied.keys():
        return None
    condition = None if above.condition is None else substituted(above.condition, node.terms)
    return JoinInput(node.rows, below, condition)
