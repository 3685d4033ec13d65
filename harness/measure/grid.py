"""Which cells a sweep has: those of the post and ours by default, or what the settings ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltamark.datagen.workload import known_workload
from deltamark.errors import unknown
from deltamark.harness.engines.registry import COMPARED, capabilities
from deltamark.harness.measure.batch_sizes import (
    COARSE,
    CROSSOVER,
    FINE,
    PHYSICAL,
    PRODUCT,
    SMALL,
    Column,
    product_columns,
)
from deltamark.harness.measure.cell import Cell
from deltamark.harness.results import published
from deltamark.queries.catalogue import QUERIES, query

WORKERS = (1, 2)
WORKED = (COARSE, published.ours("post", *COARSE))
"""Batches for several workers: the post's as we number them, and as it does."""

DISTRIBUTED = (100_000, 1_000_000)
"""Logical batches at P=1 on Spark, which takes a second for any."""

DELETIONS = ("window:100000", "refresh:10")
VARIED = ("q04", "q13", "q15", "q18")
"""The queries that the post has several dataflows for."""

SAMPLE, RECOMPUTED = 10_000, 15
"""Batches that are timed at most, of an engine that maintains and of one that recomputes."""

EVERY = "all"


@dataclass(frozen=True)
class Task:
    cell: Cell
    sample: int


@dataclass(frozen=True)
class Asked:
    """What the settings say; empty where they say nothing."""

    sf: str
    queries: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    logical: tuple[int, ...] = ()
    physical: tuple[int, ...] = ()
    product: tuple[int, ...] = ()
    workers: tuple[int, ...] = ()
    engines: tuple[str, ...] = COMPARED
    workloads: tuple[str, ...] = ()
    sample: int | None = None
    master: str = ""

    @property
    def special(self) -> bool:
        return bool(self.variants or self.logical or self.physical or self.product or self.workers or self.workloads)


def tasks(asked: Asked) -> list[Task]:
    """List the cells, each once, in the order in which tables want them."""
    names = asked.queries or tuple(QUERIES)
    known = {variant for name in names for variant in query(name).variants}
    for variant in set(asked.variants) - {EVERY, *known}:
        raise unknown("variant", variant, known)
    for work in asked.workloads:
        known_workload(work)
    cells = _asked_for(asked, names) if asked.special else _default(asked, names)
    cells = (cell.but(master=asked.master) if capabilities(cell.engine).has_session else cell for cell in cells)
    sized = (Task(cell, _sample(asked, cell)) for cell in cells)
    return list(dict.fromkeys(sized))


def _sample(asked: Asked, cell: Cell) -> int:
    if asked.sample is not None:
        return asked.sample
    return SAMPLE if capabilities(cell.engine).has_stream else RECOMPUTED


def _default(asked: Asked, names: Sequence[str]) -> Iterator[Cell]:
    for engine in asked.engines:
        base = [Cell(name, asked.sf, engine=engine) for name in names]
        if capabilities(engine).has_session:
            yield from _at([cell.but(workers=WORKERS[-1]) for cell in base], [(size, 1) for size in DISTRIBUTED])
        else:
            yield from _maintained(base) if capabilities(engine).has_stream else _at(base, CROSSOVER)


def _maintained(base: Sequence[Cell]) -> Iterator[Cell]:
    yield from _at(base, PHYSICAL)
    yield from _at([cell.but(workers=workers) for cell in base for workers in WORKERS], WORKED)
    yield from _at(base, PRODUCT)
    yield from _at(base, SMALL)
    yield from _at(base, CROSSOVER)
    for work in DELETIONS:
        yield from _at([cell.but(workload=work) for cell in base], [FINE])
    for cell in base:
        if cell.query in VARIED:
            yield from _at(_variants(cell, (EVERY,)), PHYSICAL)


def _asked_for(asked: Asked, names: Sequence[str]) -> Iterator[Cell]:
    batchings = _batchings(asked)
    for engine in asked.engines:
        for work in asked.workloads or ("insert",):
            cells = [Cell(name, asked.sf, work, engine=engine) for name in names]
            if capabilities(engine).has_stream:
                cells = [each for cell in cells for each in _variants(cell, asked.variants)]
            yield from _at([cell.but(workers=each) for cell in cells for each in asked.workers or (1,)], batchings)


def _batchings(asked: Asked) -> list[Column]:
    found = [column for product in asked.product for column in product_columns(product)]
    if asked.logical or asked.physical:
        found += [(each, size) for each in asked.logical or (1,) for size in asked.physical or (1,)]
    if not found:
        found = [COARSE] if asked.workers else [*PHYSICAL]
    return found


def _at(cells: Iterable[Cell], batchings: Iterable[Column]) -> Iterator[Cell]:
    for logical, physical in batchings:
        for cell in cells:
            yield cell.but(logical=logical, physical=physical)


def _variants(cell: Cell, wanted: Sequence[str]) -> list[Cell]:
    """Return a cell for each wanted variant that its query has; the default one has no name."""
    known = query(cell.query)
    names = known.variants if EVERY in wanted else [name for name in known.variants if name in wanted]
    return [cell.but(variant="" if name == known.default else name) for name in names] or [cell]
