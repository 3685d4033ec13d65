"""Looking through filters and projections: the node below them that the side of a join can read instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deltamark.dataflow.plan.nodes import Filter, Node, Project
from deltamark.dataflow.plan.terms import Term, column, conjunction, substituted


@dataclass(frozen=True)
class JoinInput:
    """The rows that one side of a join reads: those of a node that satisfy a condition.

    terms: the columns that the join needs, as terms over the node's columns.
    """

    node: Node
    terms: Mapping[str, Term]
    condition: Term | None = None

    def names(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the names of key columns in the node."""
        return tuple(self.terms[name].value for name in columns)

    def of(self, columns: Iterable[str]) -> tuple[Term, ...]:
        return tuple(self.terms[name] for name in columns)

    @property
    def columns(self) -> list[str]:
        """The columns of the node that are required."""
        terms = [*self.terms.values(), *([] if self.condition is None else [self.condition])]
        return list(dict.fromkeys(name for term in terms for name in sorted(term.columns)))


def look_through(node: Node, keys: Sequence[str], columns: Sequence[str], kinds: tuple[type[Node], ...]) -> JoinInput:
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
    if any(term.op != "column" for term in above.terms.values()):
        return None
    below = {name: node.terms[term.value] for name, term in above.terms.items()}
    used = frozenset() if above.condition is None else above.condition.columns
    if any(below[name].op != "column" for name in keys) or not used <= node.copied.keys():
        return None
    condition = None if above.condition is None else substituted(above.condition, node.terms)
    return JoinInput(node.rows, below, condition)
