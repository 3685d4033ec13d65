"""The formula for the storage of the Shares (Hypercube) algorithm, which sends rows wherever a match might be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product


def edge_cover(atoms: Iterable[Sequence[str]]) -> float:
    """Return the fractional edge cover number of atoms of one or two variables.

    By duality it is the largest sum of weights of variables such that the weights in each atom sum to at most 1. For
    atoms of two variables some optimal weights are multiples of one half.
    """
    pairs = [sorted(set(each)) for each in atoms]
    variables = sorted({name for each in pairs for name in each})
    place = {name: at for at, name in enumerate(variables)}
    limits = [[place[name] for name in each] for each in pairs]
    halves = product(range(3), repeat=len(variables))
    return max(sum(each) for each in halves if all(sum(each[at] for at in limit) <= 2 for limit in limits)) / 2


def copies(atoms: Sequence[Sequence[str]], shards: int) -> float:
    """Return the number of copies of the relation on all shards together, if every atom reads the same relation."""
    return len(atoms) * shards ** (1 - 1 / edge_cover(atoms))
