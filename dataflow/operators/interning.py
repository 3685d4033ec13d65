"""The base of plan nodes: interning, content digests, and access to the inputs by way of the fields."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakValueDictionary

from deltamark.dataflow.plan.terms import PlanTerm
from deltamark.dataflow.types import Schema

if TYPE_CHECKING:
    from deltamark.dataflow.operators.node import Node

DIGEST_BYTES = 16

_interned: WeakValueDictionary[bytes, PlanNode] = WeakValueDictionary()


class _Interning(type):
    """Returns the existing node when one of equal content is constructed."""

    def __call__(cls, *args: object, **kwargs: object) -> PlanNode:
        node = super().__call__(*args, **kwargs)
        return _interned.setdefault(node.digest, node)


@dataclass(frozen=True)
class PlanValue:
    """The base of values that are fields of nodes, and may hold nodes themselves."""


@dataclass(frozen=True, eq=False)
class PlanNode(metaclass=_Interning):
    """The base of all operations. Nodes compare by identity.

    The schema is a field rather than derived from the inputs, because passes that replace the inputs keep its bounds.
    """

    schema: Schema = field(kw_only=True)

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose rows this one reads, in the order of the fields."""
        return tuple(node for value in _values(self).values() for node in _nodes_in(value))

    @cached_property
    def digest(self) -> bytes:
        """A name for the content, the same in every process."""
        return _digest((type(self).__name__, *map(_content, _values(self).values())))

    @property
    def operation(self) -> str:
        """The name of the operation in words, such as `moving threshold`."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).lower()

    def with_inputs(self, inputs: Iterable[Node]) -> Self:
        """Return the same operation, with the same schema, over other inputs."""
        remaining = iter(inputs)
        return replace(self, **{name: _with_nodes(value, remaining) for name, value in _values(self).items()})

    def __str__(self) -> str:
        return self.operation

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), _values(self))


def term_digest(term: PlanTerm) -> str:
    """Return a name for the content of a term, the same in every process. It is made once for each part."""
    if not term.digest:
        args, parameter = [term_digest(arg) for arg in term.args], _content(term.parameter)
        content = "term", term.operation, args, repr(term.type), parameter
        object.__setattr__(term, "digest", _digest(content).hex())
    return term.digest


def _digest(content: object) -> bytes:
    return hashlib.blake2b(repr(content).encode(), digest_size=DIGEST_BYTES).digest()


def _rebuilt(kind: Callable[..., Node], values: Mapping[str, object]) -> Node:
    return kind(**values)


def _values(of: PlanNode | PlanValue) -> dict[str, Any]:
    return {each.name: getattr(of, each.name) for each in fields(of)}


def _nodes_in(value: object) -> Iterator[Node]:
    """Yield the nodes in a field."""
    match value:
        case PlanNode():
            yield value  # type: ignore[misc]  # every class of nodes is in the union
        case PlanValue():
            for each in _values(value).values():
                yield from _nodes_in(each)
        case tuple():
            for each in value:
                yield from _nodes_in(each)


def _with_nodes(value: Any, nodes: Iterator[Node]) -> Any:
    """Put other nodes into a field, in the order of `_nodes_in`."""
    match value:
        case PlanNode():
            return next(nodes)
        case PlanValue():
            return replace(value, **{name: _with_nodes(each, nodes) for name, each in _values(value).items()})
        case tuple():
            return tuple(_with_nodes(each, nodes) for each in value)
    return value


def _content(value: object) -> object:
    """Spell out a field, with the types of values: 1, 1.0 and True compare as equal, and are different content."""
    match value:
        case PlanNode():
            return "node", value.digest
        case PlanValue():
            return type(value).__name__, *map(_content, _values(value).values())
        case PlanTerm():
            return "term", term_digest(value)
        case Schema():
            return [(each.name, repr(each.type), each.sql) for each in value.fields], value.rows
        case tuple():
            return [_content(each) for each in value]
    return type(value).__name__, value
