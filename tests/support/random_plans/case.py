"""A plan with the streams of its inputs, and how reports of tests write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support.random_plans.streams import (
    Streams,
)

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.types import Type


@dataclass(frozen=True)
class Case:
    """A plan and the change streams of its inputs."""

    collection: Collection
    streams: Streams

    def __repr__(self) -> str:
        streams = (f"  {name}: {list(stream)}" for name, stream in self.streams.items())
        return "\n".join(["Case", *described(self.collection), *streams])

    def _repr_pretty_(self, printer: Any, _: bool) -> None:  # noqa: FBT001
        """Print the case in the reports of hypothesis."""
        printer.text(repr(self))


def described(*collections: Collection) -> list[str]:
    """Return one line for each node of plans."""
    nodes = nodes_of(*collections)
    at = {id(each): place for place, each in enumerate(nodes)}
    return [f"  {place}: {brief(each, at)}" for place, each in enumerate(nodes)]


def nodes_of(*collections: Collection) -> list[Node]:
    return list(dict.fromkeys(node for each in collections for node in walk(each.node)))


def brief(node: Node, at: Mapping[int, int]) -> str:
    columns = ", ".join(f"{field.name} {spelled_type(field.type)}" for field in node.schema.fields)
    if isinstance(node, Input):
        return f"input {node.name}: {columns}, {node.schema.rows} rows"
    return (
        f"{node.operation} {[at[id(each)] for each in node.inputs]} {node.description(node.schema.names)} -> {columns}"
    )


def spelled_type(type_: Type) -> str:
    return f"{type_} {type_.low}..{type_.high}" if type_.kind in ("int", "date") else str(type_)
