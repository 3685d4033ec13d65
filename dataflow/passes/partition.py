"""Partitioning: the fourth pass chooses the distribution of the rows of each node over the workers, and the exchanges.

Every worker reads the whole feed, so rows that are computed from inputs alone need not move: each worker takes its own
rows of an input where it reads them (they are dealt), and computes the rest from these. If a filter reads the input,
each worker filters a slice, and the numbers of the rows that pass are dealt. Where an operator with state needs rows of
one key together, the inputs below it are dealt by that key. Nodes over few rows are computed by every worker, so that
the rows joined with them stay where a later operator needs them. All other rows are exchanged.

The pass takes `Pruned` and a number of workers and returns `Partitioned`; it visits each node once, inputs first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from deltamark.dataflow.operators.distribution import (
    ANYWHERE,
    FIRST,
    SLICED,
    WHOLE,
    Distribution,
    Exchange,
    OperatorDistribution,
    at_first,
    exchange_to_owner,
    fits,
    in_ranges,
    to_owner,
)
from deltamark.dataflow.operators.input import Input, base_inputs, base_rows
from deltamark.dataflow.operators.linear import Filter, is_consolidated
from deltamark.dataflow.operators.node import Keys, Node, distribute, expected_rows
from deltamark.dataflow.passes.prune import Pruned
from deltamark.dataflow.types import Type, key_count

MIN_KEYS = 1024
"""The least number of different keys by which rows are partitioned for a later operator; not measured."""

MIN_REPLICATED_SHARE = 8
"""The least ratio of the work for all inputs of a plan to the work of all workers for a replicated node; not
measured.
"""

MIN_DEALT_SHARE = 16
"""The least ratio of an input's rows to those of a node below which the node's rows are dealt, not exchanged; not
measured.
"""

TEXT_COLUMNS = 32
"""The work for a column of text, as a number of other columns. In q18, numbering a text takes 125 ns."""

ROW_COLUMNS = 2
"""The work for a row, besides that for its columns, as a number of columns; not measured."""


@dataclass(frozen=True)
class Partitioned:
    """Plans with the distribution of each required node.

    answers: for each plan, the exchange that brings equal rows of its answer together, which are then consolidated.
    """

    operators: Mapping[Node, OperatorDistribution]
    answers: Mapping[str, Exchange | None]


def has_many_keys(node: Node, keys: Sequence[str]) -> bool:
    """Return whether key columns can have enough different values to balance the workers."""
    return bool(keys) and key_count(node.schema[name] for name in keys) >= MIN_KEYS


def preferred_keys(nodes: Sequence[Node]) -> dict[Node, tuple[str, ...]]:
    """Return the keys by which the readers of each node need its rows, if they agree. nodes: inputs first."""
    needed: dict[Node, set[tuple[str, ...]]] = {each: set() for each in nodes}
    for node in reversed(nodes):
        own = next(iter(needed[node])) if len(needed[node]) == 1 else ()
        for each, keys in node.preferred(own):
            if keys:
                needed[each].add(keys)
    return {node: next(iter(keys)) for node, keys in needed.items() if len(keys) == 1}


def partition(pruned: Pruned, workers: int) -> Partitioned:
    """Distribute all required nodes over some workers."""
    if workers == 1:
        operators = {node: OperatorDistribution((None,) * len(node.inputs), FIRST) for node in pruned.nodes}
        return Partitioned(operators, dict.fromkeys(pruned.plans))
    return Partitioner(pruned, workers).partition()


@dataclass
class Partitioner:
    """Distributes nodes. An open node is computed from inputs and whole nodes; its first reader distributes it."""

    pruned: Pruned
    workers: int
    _operators: dict[Node, OperatorDistribution] = field(default_factory=dict)
    _open: set[Node] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._preferred = preferred_keys(self.pruned.nodes)
        self._inputs = cache(base_inputs)
        self._total = sum(self._work(each) for each in self.pruned.nodes if isinstance(each, Input))
        self._readers: dict[Node, int] = {}
        for node in self.pruned.nodes:
            for below in node.inputs:
                self._readers[below] = self._readers.get(below, 0) + 1

    def partition(self) -> Partitioned:
        for node in self.pruned.nodes:
            if node in self.pruned.looping:
                self._loop(node)
            elif node.is_open(self):
                self._open.add(node)
            else:
                self._place(node)
        answers = {name: self._answer(plan) for name, plan in self.pruned.plans.items()}
        for node in self.pruned.nodes:  # those that only other plans' arrangements stand for
            self._settle(node, self.default(node))
        return Partitioned(self._operators, answers)

    def _answer(self, plan: Node) -> Exchange | None:
        distribution = self._settle(plan, self.default(plan))
        exchange = Exchange("first") if self._operators[plan].distribution == WHOLE else None
        if exchange is None and not is_consolidated(plan):
            exchange = exchange_to_owner(plan, distribution, self.pruned.columns)
        return exchange and self._dealt(plan, exchange)

    # The work for rows, and the columns by which they can be dealt

    def _work(self, node: Input) -> int:
        columns = self.pruned.columns[node]
        texts = sum(node.schema[name].kind == "text" for name in columns)
        return node.schema.rows * (ROW_COLUMNS + len(columns) + (TEXT_COLUMNS - 1) * texts)

    def is_small(self, node: Node) -> bool:
        """Return whether every worker may compute a node."""
        work = sum(self._work(each) for each in self._inputs(node) if each in self.pruned.columns)
        return MIN_REPLICATED_SHARE * self.workers * work <= self._total

    def is_selective(self, node: Node) -> bool:
        """Return whether an exchange of a node's rows costs less than a look at the key of each row by every worker."""
        few = MIN_DEALT_SHARE * expected_rows(node) <= base_rows(node)
        return few and not self.is_small(node) and self.can_have(node, SLICED)

    def is_free(self, node: Node) -> bool:
        """Return whether any worker can have any rows of a node without an exchange."""
        return isinstance(node, Input) or node in self._open or self._is_whole(node)

    def readers(self, node: Node) -> int:
        return self._readers[node]

    def _is_whole(self, node: Node) -> bool:
        return node in self._operators and self._operators[node].distribution == WHOLE

    def _below(self, node: Node, wish: Distribution) -> list[Distribution] | None:
        """Return the distributions of the inputs of an open node that give it a distribution without an exchange."""
        if wish == ANYWHERE:
            return None
        wishes = [WHOLE] * len(node.inputs) if wish == WHOLE else node.below(wish, self)
        if wish == WHOLE or (wishes and all(map(self.can_have, node.inputs, wishes))):
            return wishes
        return None

    def can_have(self, node: Node, wish: Distribution) -> bool:
        """Return whether a node can have a distribution without an exchange."""
        if not self._can_own(node, wish):
            return False
        if isinstance(node, Input) or wish == WHOLE:
            return wish != ANYWHERE
        if node not in self._open:
            return self._is_whole(node) and wish != SLICED
        return self._below(node, wish) is not None

    def _can_own(self, node: Node, wish: Distribution) -> bool:
        """Return whether each row of a node has an owner; keys outside the range of a distribution have none."""
        return wish.kind != "owned" or fits(wish, [node.schema[name] for name in wish.by])

    # The distribution of each node

    def _settle(self, node: Node, wish: Distribution) -> Distribution:
        """Return the distribution of a node for a reader, after that of an open node is chosen."""
        if isinstance(node, Input):
            return wish if self.can_have(node, wish) else SLICED
        if node not in self._operators:
            is_reduced = self.is_selective(node) or (_filters_input(node) and self.can_have(node, SLICED))
            wish = SLICED if wish.kind == "owned" and is_reduced and not self.is_small(node) else wish
            wishes = self._below(node, wish) or self._below(node, self.default(node)) or node.wishes(self)
            self._distribute(node, wishes)
        return self._operators[node].distribution

    def _distribute(self, node: Node, wishes: Sequence[Distribution]) -> None:
        """Distribute a node over inputs with some distributions, or those that they have already."""
        inputs = [self._settle(each, wish) for each, wish in zip(node.inputs, wishes, strict=True)]
        for side, wish in enumerate(wishes):
            if wish.kind == "owned" and self._is_filtered(below := node.inputs[side]) and self._can_own(below, wish):
                inputs[side] = wish
        found = distribute(node, inputs, self.pruned.columns)
        edges = zip(node.inputs, inputs, found.exchanges, strict=True)
        self._operators[node] = replace(found, exchanges=tuple(self._edge(*edge) for edge in edges))

    def _edge(self, node: Node, wanted: Distribution, exchange: Exchange | None) -> Exchange | None:
        if exchange is None and self._is_filtered(node) and wanted.kind == "owned":
            exchange = Exchange("owner", wanted.by, wanted.low)
        if exchange is None and isinstance(node, Input) and wanted != WHOLE:
            exchange = Exchange("slice") if wanted == SLICED else Exchange("owner", wanted.by, wanted.low)
            exchange = Exchange("first") if wanted == FIRST else exchange
        return exchange and self._dealt(node, exchange)

    def _dealt(self, node: Node, exchange: Exchange) -> Exchange | None:
        if exchange.to == "owner" and self._is_filtered(node):
            return replace(exchange, dealt=True)
        if not self._is_whole(node):
            return exchange
        return None if exchange.to == "all" else replace(exchange, dealt=True)

    def _is_filtered(self, node: Node) -> bool:
        """Return whether each worker filters its slice of an input, whose rows are then dealt by their numbers."""
        is_placed = node in self._operators and self._operators[node].distribution == SLICED
        return is_placed and _filters_input(node)

    def _place(self, node: Node) -> None:
        """Distribute a node that is not open."""
        if isinstance(node, Input):
            self._operators[node] = OperatorDistribution((), WHOLE)
        elif all(map(self.is_free, node.inputs)) and self.is_small(node) and node.parallel:
            self._distribute(node, [WHOLE] * len(node.inputs))
        else:
            self._distribute(node, node.wishes(self))

    def _loop(self, node: Node) -> None:
        """Place a node of a loop at the first worker, with the rows that it reads from outside."""
        inputs = [self._settle(each, FIRST) for each in node.inputs]
        edges = zip(node.inputs, inputs, at_first(inputs).exchanges, strict=True)
        self._operators[node] = OperatorDistribution(tuple(self._edge(*edge) for edge in edges), FIRST)

    def together(self, inputs: Sequence[Node], keys: tuple[Keys, Keys], types: Sequence[Type]) -> list[Distribution]:
        """Deal both inputs by one key, or one of them as the other one is distributed."""
        names = dict(zip(*keys, strict=True)), dict(zip(*keys[::-1], strict=True))
        for side in (0, 1):
            if not self.is_free(inputs[side]) or self._is_decided(inputs[side]):
                placed = self._operators[inputs[side]].distribution
                wish = WHOLE if self.is_small(inputs[1 - side]) else _owned_by(keys[1 - side], types)
                if placed.kind == "owned" and set(placed.by) <= set(keys[side]):
                    same = replace(placed, by=tuple(names[side][name] for name in placed.by))
                    wish = same if self._can_own(inputs[1 - side], same) else wish
                return [placed, wish] if side == 0 else [wish, placed]
        left = _owned_by(keys[0], types)
        return [left, replace(left, by=tuple(names[0][name] for name in left.by))]

    def _is_decided(self, node: Node) -> bool:
        return node in self._operators and not isinstance(node, Input) and not self._is_whole(node)

    def owned(self, node: Node, names: Sequence[str] | None = None) -> Distribution:
        """Return a distribution of a node by some of its columns: by the preferred ones of them if it has any."""
        names = self.pruned.columns[node] if names is None else names
        preferred = self._preferred.get(node, ())
        if not (has_many_keys(node, preferred) and set(preferred) <= set(names)):
            preferred = tuple(names)
        return _owned_by(preferred, [node.schema[name] for name in preferred])

    def default(self, node: Node) -> Distribution:
        """Return a distribution of a node for a reader that has no wish: by keys that other readers need."""
        preferred = self._preferred.get(node, ())
        if has_many_keys(node, preferred):
            wish = _owned_by(preferred, [node.schema[name] for name in preferred])
            if self.can_have(node, wish):
                return wish
        if self.can_have(node, SLICED):
            return SLICED
        return ANYWHERE


def _filters_input(node: Node) -> bool:
    return isinstance(node, Filter) and isinstance(node.rows, Input)


def _owned_by(names: Sequence[str], types: Sequence[Type]) -> Distribution:
    """Return the distribution by the first column whose keys are owned in ranges, or else by all columns."""
    for name, type_ in zip(names, types, strict=True):
        if in_ranges(type_):
            return Distribution("owned", (name,), type_.low)
    return to_owner(names, types).applied()
