"""Random plans of all kinds of examples: they grow by operators and by queries of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from support.random_plans.choices import Choices
from support.random_plans.growth import grown
from support.random_plans.steps import STEPS, WILD_STEPS, Grown, linear

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.node import Node, walk
from deltamark.dataflow.sql.query import sql
from deltamark.errors import DeltamarkError
from fuzz.queries import selects
from fuzz.queries.writer import read_by

QUERIES = 10
"""The weight of queries among the steps of a plan, each of which has a weight of 1 or 2."""

TABLES = ("t", "u", "v")
MOST_COLUMNS = 5


@dataclass
class Texts:
    """The texts of SQL that parts of plans come from, by the nodes that they have become."""

    by_node: dict[Node, str] = field(default_factory=dict)

    def of(self, *plans: Collection) -> list[str]:
        """Return the texts that some plans come from."""
        nodes = {node: None for each in plans for node in walk(each.node)}
        return [self.by_node[node] for node in nodes if node in self.by_node]

    def query(self, choices: Choices, pool: list[Grown]) -> Grown | None:
        """Draw a query over collections of a pool; return None if SQL refuses it."""
        tables = {name: _table(choices, pool) for name in TABLES[: choices.pick([2, 1, 3])]}
        text = str(selects.whole(read_by(choices, {name: each.schema for name, each in tables.items()})))
        try:
            rows = sql(text, tables)
        except DeltamarkError:
            return None
        self.by_node[rows.node] = text
        return Grown(rows, signed=False)


def _table(choices: Choices, pool: Sequence[Grown]) -> Collection:
    """Pick columns of a collection without negative weights. The names of the parts of an average have a point."""
    states = [each for each in pool if not each.signed]
    rows = linear(choices, states).rows
    named = [name for name in rows.schema.names if "." not in name][:MOST_COLUMNS]
    return rows.select(*named) if named else states[0].rows


def grown_with_queries(choices: Choices, *, wild: bool, heavy: bool, steps: int) -> tuple[list[Grown], Texts]:
    """Draw inputs and plans over them, some of which come from texts of SQL."""
    texts = Texts()
    ways = [*(WILD_STEPS if wild else STEPS), *[texts.query] * QUERIES]
    return grown(choices, ways, wild=wild, heavy=heavy, steps=steps), texts
