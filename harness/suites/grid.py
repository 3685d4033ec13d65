"""The cells of queries: by default those of the post's tables and of ours, otherwise those that the settings select."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltamark.datagen.workloads.registry import known_workload
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.benchmarks.cell import (
    ALL,
    COARSE,
    CROSSOVER,
    FINE,
    ON_SPARK,
    PHYSICAL,
    PRODUCT,
    SMALL,
    Batching,
    Cell,
    product_batchings,
)
from deltamark.harness.engines.base import Capabilities
from deltamark.harness.engines.registry import DEFAULT_SWEEP, capabilities
from deltamark.harness.results import published
from deltamark.harness.suites.suite import Selection

WORKERS = (1, 2)
WORKER_BATCHINGS = (COARSE, published.ours("post", *COARSE))
"""The batchings for several workers: the post's in our numbering of times, and in its own."""

DELETIONS = ("window:100000", "refresh:10")
QUERIES_WITH_VARIANTS = ("q04", "q13", "q15", "q18")
"""The queries that have several dataflows in the post."""

SAMPLED_BATCHES, RECOMPUTED_BATCHES = 10_000, 15
"""The largest numbers of timed batches: for engines that maintain, and for those that recompute."""

EVERY_VARIANT = "all"
FIRST_VARIANT = "first"


@dataclass(frozen=True, kw_only=True)
class GridSettings(Selection):
    """The settings that select cells; empty ones select the default."""

    variants: tuple[str, ...] = ()
    logical: tuple[int, ...] = ()
    physical: tuple[int, ...] = ()
    product: tuple[int, ...] = ()
    workers: tuple[int, ...] = ()
    engines: tuple[str, ...] = DEFAULT_SWEEP
    workload: tuple[str, ...] = ()
    sample: int | None = None
    master: str = ""

    @property
    def selects_batchings(self) -> bool:
        return bool(self.variants or self.logical or self.physical or self.product or self.workers or self.workload)


def grid_cells(settings: GridSettings, data: str = "", rounds: Callable[[Cell], int] | None = None) -> list[Cell]:
    """List the cells without duplicates, in the order of the tables; raise an error for an unknown name.

    data: the digest of the data; rounds: counts the rounds of a cell's stream, if the data is there.
    """
    names = settings.names
    known = {variant for name in names for variant in settings.home.query(name).variants}
    for variant in set(settings.variants) - {EVERY_VARIANT, FIRST_VARIANT, *known}:
        raise unknown("variant", variant, known)
    for work in settings.workload:
        known_workload(work)
    chosen = _selected(settings, names) if settings.selects_batchings else _default(settings, names)
    cells = [cell.but(master=settings.master) if capabilities(cell.engine).has_master else cell for cell in chosen]
    cells = cells if rounds is None else _different_cells(cells, rounds)
    return list(dict.fromkeys(cell.but(sample=_sample(settings, cell), data=data) for cell in cells))


def _different_cells(cells: Sequence[Cell], rounds: Callable[[Cell], int]) -> list[Cell]:
    """Drop the cells in which nothing changes after a load, and those that are equal to others."""
    changing = [cell for cell in cells if rounds(cell)]
    if cells and not changing:
        remedy = "give other queries or another WORKLOAD="
        raise DeltamarkError("nothing to measure: no cell has changes after its load", str(cells[0]), remedy)
    return [*_without_equal_batches(changing, rounds)]


def _without_equal_batches(cells: Iterable[Cell], rounds: Callable[[Cell], int]) -> Iterator[Cell]:
    """Drop the cells that take the whole stream at once, as a cell before them does."""
    seen = set()
    for cell in cells:
        size = rounds(cell)
        logical = ALL if cell.logical >= size else cell.logical
        stream = cell.but(logical=logical, physical=ALL)
        if cell.logical * cell.physical < size or stream not in seen:
            yield cell
        if cell.logical * cell.physical >= size:
            seen.add(stream)


def _sample(settings: GridSettings, cell: Cell) -> int:
    if settings.sample is not None:
        return settings.sample
    return RECOMPUTED_BATCHES if capabilities(cell.engine).recomputes else SAMPLED_BATCHES


def _default(settings: GridSettings, names: Sequence[str]) -> Iterator[Cell]:
    for engine in settings.engines:
        base = [settings.cell(name).but(engine=engine) for name in names]
        able = capabilities(engine)
        if able.has_master:
            yield from _at([cell.but(workers=WORKERS[-1]) for cell in base], ON_SPARK)
        elif able.recomputes:
            yield from _at(base, CROSSOVER)
        elif able.has_stream:
            yield from _maintained(base, able)
        else:
            yield from _at(base, (*PHYSICAL, *CROSSOVER))


def _maintained(base: Sequence[Cell], able: Capabilities) -> Iterator[Cell]:
    workers = [number for number in WORKERS if able.max_workers is None or number <= able.max_workers]
    yield from _at(base, PHYSICAL)
    yield from _at([cell.but(workers=number) for cell in base for number in workers], WORKER_BATCHINGS)
    yield from _at(base, PRODUCT)
    yield from _at(base, SMALL)
    yield from _at(base, CROSSOVER)
    for work in DELETIONS if any(cell.home.relations.events for cell in base) else ():
        yield from _at([cell.but(workload=work) for cell in base], [FINE])
    for cell in base if able.has_variants else ():
        if cell.benchmark == DEFAULT and cell.query in QUERIES_WITH_VARIANTS:
            yield from _at(_variants(cell, (EVERY_VARIANT,)), PHYSICAL)


def _selected(settings: GridSettings, names: Sequence[str]) -> Iterator[Cell]:
    batchings = _batchings(settings)
    for engine in settings.engines:
        for work in settings.workload or ("",):
            cells = [settings.cell(name, work).but(engine=engine) for name in names]
            if capabilities(engine).has_variants:
                cells = [variant for cell in cells for variant in _variants(cell, settings.variants)]
            several = [cell.but(workers=workers) for cell in cells for workers in settings.workers or (1,)]
            yield from _at(several, batchings)


def _batchings(settings: GridSettings) -> list[Batching]:
    batchings = [batching for product in settings.product for batching in product_batchings(product)]
    if settings.logical or settings.physical:
        batchings += [(logical, size) for logical in settings.logical or (1,) for size in settings.physical or (1,)]
    return batchings or ([COARSE] if settings.workers else [*PHYSICAL])


def _at(cells: Iterable[Cell], batchings: Iterable[Batching]) -> Iterator[Cell]:
    for logical, physical in batchings:
        for cell in cells:
            yield cell.but(logical=logical, physical=physical)


def _variants(cell: Cell, names: Sequence[str]) -> list[Cell]:
    """Return a cell for each of the named variants that the query has; the default variant has no name in a cell."""
    known = cell.definition
    wanted = {known.default if name == FIRST_VARIANT else name for name in names}
    selected = [name for name in known.variants if EVERY_VARIANT in names or name in wanted]
    return [cell.but(variant="" if name == known.default else name) for name in selected] or [cell]
