"""The post's tables: physical batches, L x P with a constant product, workers, and the dataflows of one query."""

from __future__ import annotations

import math

from harness import published
from harness.record import Record
from harness.tables.entry import NOTHING, Entry, Table, mean_foot, of, peak, rate, ratio, whole, words
from harness.tables.lookup import Lookup, row_name

PHYSICAL = (1000, 10_000, 100_000, 1_000_000)
PRODUCT = ((1, 100_000), (10, 10_000), (100, 1000), (1000, 100), (10_000, 10), (100_000, 1))
COARSE = (100_000, 1)

SECONDS = "the fastest of the timed runs; a sampled cell shows its rate instead"


def physical(known: Lookup) -> Table:
    """Make the table `1,000 10,000 100,000 1,000,000 peak rate hot dog`."""
    columns = [(1, size) for size in PHYSICAL]
    hot_dog = published.hot_dog()
    rows = []
    for query, engine in known.rows(columns):
        found = [known.find(query, *column, engine=engine) for column in columns]
        rows.append([
            words(row_name(query, engine)), *(of(record, whole) for record in found), peak(found),
            rate(hot_dog[query]) if query in hot_dog else NOTHING,
        ])  # fmt: skip
    return Table(
        "physical", "Physical batches: seconds for the whole stream, L = 1",
        ["query", *(f"{size:,}" for size in PHYSICAL), "peak rate", "hot dog"], rows,
        [SECONDS, published.sources()["hot-dog"].label],
        mean_foot(rows, [None] * len(columns) + [rate, rate]),
    )  # fmt: skip


def product(known: Lookup) -> Table:
    """Make the table of six columns L x P with the product 100,000."""
    rows = []
    for query, engine in known.rows(PRODUCT):
        found = [known.find(query, *column, engine=engine) for column in PRODUCT]
        rows.append([words(row_name(query, engine)), *(of(record, whole) for record in found), peak(found)])
    headers = [f"{logical} x {size}" for logical, size in PRODUCT]
    return Table(
        "product", "Logical x physical batches: seconds for the whole stream, L x P = 100,000",
        ["query", *headers, "peak rate"], rows, [SECONDS], mean_foot(rows, [None] * len(PRODUCT) + [rate]),
    )  # fmt: skip


def workers(known: Lookup) -> Table:
    """Make the table of 100000 x 1 by numbers of workers, with what several gain."""
    numbers = sorted({record.workers for record in known.records} | {1, 2})
    rows = []
    for query, engine in [each for each in known.rows([COARSE], 2) if each[1] != "duckdb"]:
        found = [known.find(query, *COARSE, workers=number, engine=engine) for number in numbers]
        rows.append([
            words(row_name(query, engine)), *(of(record, whole) for record in found), peak(found),
            _improvement(found), _cost(known, query, numbers, found),
        ])  # fmt: skip
    headers = ["100000 x 1", *(f"100000 x 1 -w{number}" for number in numbers[1:])]
    return Table(
        "workers", "Workers: seconds for the whole stream, 100000 x 1",
        ["query", *headers, "peak rate", "improvement", "COST"], rows,
        [SECONDS, "COST: how many workers it takes to beat one thread of DuckDB that recomputes after each batch"],
        mean_foot(rows, [None] * len(numbers) + [rate, ratio, None]),
    )  # fmt: skip


def _improvement(found: list[Record | None]) -> Entry:
    """Write how much faster the fastest number of workers is than one."""
    first, *others = found
    rates = [record.rate for record in others if record is not None and record.shown]
    if first is None or not first.shown or not rates:
        return NOTHING
    return ratio(max(rates) / first.rate)


def _cost(known: Lookup, query: str, numbers: list[int], found: list[Record | None]) -> Entry:
    alone = known.recomputed(query, COARSE[0])
    if alone is None or not alone.shown:
        return NOTHING
    beaten = [
        number
        for number, record in zip(numbers, found, strict=True)
        if record is not None and record.shown and record.rate > alone.rate
    ]
    return Entry(str(beaten[0]), beaten[0]) if beaten else Entry(f"more than {numbers[-1]}", math.inf)


def variants(known: Lookup) -> Table:
    """Make the table of the dataflows of a query, with the post's beside them."""
    theirs = {(each.query, each.variant): each.label for each in published.figures() if each.table == "physical"}
    rows = []
    for query, variant in _varied(known):
        found = [known.find(query, 1, size, variant=variant) for size in PHYSICAL]
        label = theirs.get((query, variant), "")
        rows.append([words(f"{query} {variant}"), *(of(record, whole) for record in found), peak(found), words(label)])
    return Table(
        "variants", "Dataflows of one query: seconds for the whole stream, L = 1",
        ["query", *(f"{size:,}" for size in PHYSICAL), "peak rate", "the post's"], rows,
        ["the first of a query is the one in the other tables"],
    )  # fmt: skip


def _varied(known: Lookup) -> list[tuple[str, str]]:
    """List queries of which several variants were measured, with those: the default one first."""
    found: dict[str, dict[str, bool]] = {}
    for record in known.records:
        if record.engine == "embedded":
            found.setdefault(record.query, {})[record.variant] = record.default
    return [
        (query, variant)
        for query, named in sorted(found.items())
        if len(named) > 1
        for variant in sorted(named, key=lambda name, named=named: (not named[name], name))  # type: ignore[misc]
    ]
