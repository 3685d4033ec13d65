"""Recursion: WITH RECURSIVE as a loop.

SQL applies the body to the new rows of the iteration before, and not to all rows. If the body derives each of its rows
from one row of the loop, both are the same; any other body is refused. A loop keeps each row once, as UNION does. For
UNION ALL the rows have the number of their iteration, and the rows of an iteration must be known to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deltamark.dataflow.language.by_terms import only, projected
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.operators.derived import LeftJoin, Partners
from deltamark.dataflow.operators.linear import Concat
from deltamark.dataflow.operators.node import Node, is_unique, walk
from deltamark.dataflow.passes import expansion
from deltamark.dataflow.passes.optimize import optimized
from deltamark.dataflow.plan.terms import Ratio, Term, column, number, total
from deltamark.dataflow.scalars.values import Cell, Value, unified_values, value_of
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.rows import Rows, scanned, stored_term

Body = Callable[[Rows], Rows]
"""Derives the rows of an iteration from those of the one before."""

TRIAL = "(rows of a recursion)"
"""The name of an input that stands for the rows of a loop whose columns are not known yet."""

ITERATION = "(iteration)"
"""The column of the number of a row's iteration."""


@dataclass(frozen=True)
class Recursion:
    """A recursive query. keeps_copies: whether it has UNION ALL."""

    seed: Rows
    body: Body
    keeps_copies: bool

    def rows(self) -> Rows:
        """Return the rows of the seed, and those that the body derives from them again and again."""
        like = self._like()
        first = Collection(optimized(self._first(like).node))
        if self.keeps_copies and not self._differ(first, like):
            raise unsupported("a recursion with UNION ALL that may have equal rows", remedy="write UNION")

        def iteration(rows: Collection) -> Collection:
            derived = Collection(_expanded(self._derived(rows, like).node, rows.node))
            return derived.concat(first).distinct()

        return self._rows(first.iterate(iteration), len(like))

    def _like(self) -> Sequence[Value]:
        """Return a value of the kind and the scale of each column, which are those of the seed and of derived rows."""
        like = list(map(value_of, self.seed.cells))
        for _ in range(len(like) + 1):
            types = {field.name: field.type for field in self._first(like).schema.fields}
            trial = self._rows(source(TRIAL, types), len(like))
            wider = [_same(*each)[0] for each in zip(like, self.body(trial).cells, strict=True)]
            if list(map(_form, wider)) == list(map(_form, like)):
                return like
            like = wider
        raise unsupported("a recursion whose columns get more decimal places in each iteration")

    def _first(self, like: Sequence[Value]) -> Collection:
        return self._stored(self.seed, like, number(0))

    def _derived(self, rows: Collection, like: Sequence[Value]) -> Collection:
        """Return the rows that the body derives from some rows of the loop."""
        derived = self.body(self._rows(rows, len(like)))
        if not self.keeps_copies:
            return self._stored(derived, like, number(0))
        if ITERATION not in derived.types:
            raise unsupported("UNION, GROUP BY or an outer join in a recursion with UNION ALL")
        return self._stored(derived, like, total(column(ITERATION, derived.types[ITERATION]), number(1)))

    def _stored(self, rows: Rows, like: Sequence[Value], iteration: Term) -> Collection:
        terms: dict[str, Term] = {}
        for at, (each, cell) in enumerate(zip(like, rows.cells, strict=True)):
            terms[f"c{at}"] = stored_term(_same(each, cell)[1])
        if self.keeps_copies:
            terms[ITERATION] = iteration
        return Collection(projected(rows.collection.node, terms))

    def _rows(self, collection: Collection, columns: int) -> Rows:
        return scanned(collection, collection.schema.names[:columns])

    def _differ(self, first: Collection, like: Sequence[Value]) -> bool:
        """Return whether all rows, or the values of one column, differ in the seed and so in each iteration."""
        types = {field.name: field.type for field in first.schema.fields}
        for names in (first.schema.names, *((name, ITERATION) for name in first.schema.names)):
            derived = self._derived(source(TRIAL, types, key=names), like)
            if is_unique(first.node, names) and is_unique(derived.node, names):
                return True
        return False


def _same(like: Value, cell: Cell) -> Sequence[Value]:
    """Give a value the kind and the scale of a column; return the column's value with them, and it."""
    same = unified_values([like, value_of(cell)])
    if same is None or isinstance(same[0].term, Ratio):
        raise unsupported("a column of a recursion that is a quotient, or of different kinds")
    if same[0].term.type.kind == "text":
        raise unsupported("a column of stored texts in a recursion", remedy="leave it out, and join it to the result")
    return same


def _form(value: Value) -> tuple[str, int]:
    assert not isinstance(value.term, Ratio)
    return value.term.type.kind, value.term.type.scale


def _expanded(body: Node, rows: Node) -> Node:
    """Return a body without derived operators. The joins with rows of the loop keep their order, as in any loop.

    Rows that the body does not derive from those of the loop are an error: SQL has them only if the loop has a row.
    """
    made: dict[Node, Node] = {rows: rows}

    def of(node: Node) -> Node:
        return made[node] if node in made else optimized(node)

    for node in walk(body):
        inside = [each in made for each in node.inputs]
        if not any(inside):
            continue
        if isinstance(node, Concat) and not all(inside):
            raise unsupported("a part of a recursion that does not read its rows", remedy="move it before UNION")
        match node:
            case Partners():
                whole, found = expansion.with_partner(of(node.rows), of(node.others), node.equal, node.conditions)
                made[node] = only(found if node.are_kept else expansion.rest(whole, found), node.schema.names)
            case LeftJoin():
                made[node] = expansion.left_joined(of(node.left), of(node.right), node.equal, node.conditions)
            case _:
                made[node] = node.with_inputs(map(of, node.inputs))
    return of(body)
