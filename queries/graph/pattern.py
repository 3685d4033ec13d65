"""Motifs as text: "e(a,b), e(b,c), e(a,c), a<b" lists atoms (a relation and its variables) and conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.language.motif import Atom, Variant, delta_query
from deltamark.errors import DeltamarkError, unknown

NAME = r"[A-Za-z]\w*"
ITEM = re.compile(rf"\s*(?:({NAME})\s*\(([^()]*)\)|({NAME})\s*<\s*({NAME}))\s*(,|$)")


@dataclass(frozen=True)
class Pattern:
    """Atoms, each a relation and its variables, and pairs of variables of which the first must be smaller.

    definitions: relations that hold the matches of another motif, with a column for each of its variables, in order.
    """

    atoms: tuple[tuple[str, tuple[str, ...]], ...]
    smaller: tuple[tuple[str, str], ...] = ()
    definitions: tuple[tuple[str, Pattern], ...] = ()

    def __str__(self) -> str:
        atoms = [f"{name}({','.join(variables)})" for name, variables in self.atoms]
        return ", ".join([*atoms, *(f"{small}<{large}" for small, large in self.smaller)])

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for _, variables in self.atoms for each in variables))

    def dataflow(self, relations: Mapping[str, Collection], variant: Variant = "least") -> Collection:
        """Return the matches of the motif in relations."""
        known = dict(relations)
        for name, each in self.definitions:
            known[name] = each.dataflow(known, variant)
        return delta_query(self.over(known), [col[small] < col[large] for small, large in self.smaller], variant)

    def over(self, relations: Mapping[str, Collection]) -> list[Atom]:
        """Return the atoms with relations in place of their names."""
        for name, _ in self.atoms:
            if name not in relations:
                raise unknown("relation", name, relations)
        return [Atom(relations[name], variables) for name, variables in self.atoms]

    def sql(self, columns: Mapping[str, Sequence[str]], selected: str = "") -> str:
        """Return the motif as SQL over tables with some columns. selected: the SELECT list (default: the variables)."""
        places: dict[str, list[str]] = {each: [] for each in self.variables}
        for number, (name, variables) in enumerate(self.atoms):
            for column, variable in zip(columns[name], variables, strict=True):
                places[variable].append(f"e{number}.{column}")
        first = {variable: each[0] for variable, each in places.items()}
        equal = [f"{each[0]} = {other}" for each in places.values() for other in each[1:]]
        conditions = [*equal, *(f"{first[small]} < {first[large]}" for small, large in self.smaller)]
        tables = ", ".join(f"{name} AS e{number}" for number, (name, _) in enumerate(self.atoms))
        what = selected or ", ".join(f"{place} AS {variable}" for variable, place in first.items())
        return f"SELECT {what} FROM {tables} WHERE {' AND '.join(conditions) or 'true'}"  # noqa: S608


def read(text: str) -> Pattern:
    """Parse a motif."""
    atoms: list[tuple[str, tuple[str, ...]]] = []
    smaller: list[tuple[str, str]] = []
    at, comma = 0, ","
    while comma:
        found = ITEM.match(text, at)
        if found is None:
            raise _unreadable(text[at:].strip() or "nothing")
        name, variables, small, large, comma = found.groups()
        if small:
            smaller.append((small, large))
        else:
            words = tuple(each.strip() for each in variables.split(","))
            if not all(re.fullmatch(NAME, each) for each in words):
                raise _unreadable(f"{name}({variables})")
            atoms.append((name, words))
        at = found.end()
    pattern = Pattern(tuple(atoms), tuple(smaller))
    if not atoms:
        raise _unreadable(text)
    for each in dict.fromkeys(name for pair in smaller for name in pair):
        if each not in pattern.variables:
            raise unknown("variable", each, pattern.variables)
    return pattern


def _unreadable(actual: str) -> DeltamarkError:
    return DeltamarkError("not a motif", repr(actual), 'write one such as "e(a,b), e(b,c), e(a,c), a<b"')
