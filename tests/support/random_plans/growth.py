"""Random plans: they grow by one step at a time over a pool of collections, so that plans share parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from support.random_plans.case import Case
from support.random_plans.choices import Choices
from support.random_plans.steps import STEPS, Grown
from support.random_plans.streams import (
    MANY_ROWS,
    NULLABLE_TYPES,
    ROWS,
    TYPES,
    WIDE_NULLABLE_TYPES,
    WIDE_TYPES,
    inputs_of,
    streams_for,
)

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.node import Node, is_unique, walk
from deltamark.dataflow.types import Type

WIDEST = 7
MOST_FACTORS = 3

Way = Callable[[Choices, list[Grown]], Grown | None]
"""A step by which a pool of collections grows; None if it does not fit them."""


def sources(choices: Choices, types: Sequence[Type], rows: int) -> list[Collection]:
    """Declare two or three inputs of one to four columns."""
    found = []
    for name in choices.pick(["rs", "rst"]):
        shape = [choices.pick(types) for _ in range(choices.pick([1, 2, 3, 4]))]
        found.append(source(name, dict(zip("abcd", shape, strict=False)), rows))
    return found


def grown(
    choices: Choices, ways: Sequence[Way], *, wild: bool = False, heavy: bool = False, steps: int = 5
) -> list[Grown]:
    """Draw inputs, and plans over them of at most this number of steps, each by one of some ways.

    wild: columns have any types, so that sums may need more than 64 bits.
    heavy: rows have any weights, so that the weights of joins may need more than 64 bits.
    """
    rows = choices.pick([ROWS, ROWS, ROWS, MANY_ROWS]) if heavy else ROWS
    types = [*TYPES, *TYPES, *NULLABLE_TYPES]
    if wild and choices.chance(50):
        wide = [*WIDE_TYPES, *WIDE_TYPES, *WIDE_NULLABLE_TYPES]
        types = choices.pick([[*types, *wide], wide])
    pool = [Grown(each, signed=False) for each in sources(choices, types, rows)]
    for _ in choices.some(steps, 85):
        made = choices.pick(ways)(choices, pool)
        if made is not None and degree(made.rows.node) <= MOST_FACTORS:
            names = made.rows.schema.names
            pool.append(Grown(made.rows.select(*names[:WIDEST]), made.signed) if len(names) > WIDEST else made)
    return pool


def case(choices: Choices) -> Case:
    """Draw a plan of up to five steps and streams for its inputs."""
    found = grown(choices, STEPS)[-1].rows
    return Case(found, streams_for(choices, inputs_of(found), degree(found.node)))


def degree(root: Node) -> int:
    """Count the inputs whose weights are multiplied at most: crossing a collection with itself squares them.

    Joined rows are not more than those of one side if each of them has at most one partner.
    """
    found: dict[int, int] = {}
    for node in walk(root):
        below = [found[id(each)] for each in node.inputs]
        found[id(node)] = _joined(node, *below) if isinstance(node, Join) else max(below, default=1)
    return max(found.values())


def _joined(join: Join, left: int, right: int) -> int:
    if is_unique(join.right, join.right_keys):
        return left
    return right if is_unique(join.left, join.left_keys) else left + right
