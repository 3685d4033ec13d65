"""The post's tables: physical batches, L x P with a constant product, workers, and the dataflows of one query."""

from __future__ import annotations

import math
from collections.abc import Iterable

from deltamark.harness.console.formatting import NOTHING, TableEntry, rate, ratio, seconds, words
from deltamark.harness.console.table import Table, mean_foot
from deltamark.harness.measure.batch_sizes import COARSE, ON_SPARK, PHYSICAL, PRODUCT, Batching
from deltamark.harness.results import published
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import of, peak, whole
from deltamark.harness.tables.lookup import EMBEDDED, SPARK, SPARK_SQL, Lookup, row_name

COST = (
    "COST: the fewest workers that beat one thread of DuckDB recomputing after each batch; "
    "for other engines: that beat one worker of ours"
)
FASTEST = "the fastest of the timed runs; if only a sample was timed, its rate"


def physical(known: Lookup) -> Table:
    """Make the table `1,000 10,000 100,000 1,000,000 peak rate hot dog`."""
    hot_dog = published.hot_dog()
    rows, used = [], []
    for query, engine in known.rows(PHYSICAL):
        records = [known.find(query, *column, engine=engine) for column in PHYSICAL]
        used += records
        rows.append([
            words(row_name(query, engine)), *(of(record, whole) for record in records), peak(records),
            rate(hot_dog[query]) if query in hot_dog else NOTHING,
        ])  # fmt: skip
    return Table(
        "physical", "Physical batches: seconds for the whole stream, L = 1",
        ["query", *(f"{size:,}" for _, size in PHYSICAL), "peak rate", "hot dog"], rows,
        [FASTEST, *cutting(used), published.sources()["hot-dog"].label],
        mean_foot(rows, [None] * len(PHYSICAL) + [rate, rate]),
    )  # fmt: skip


def product(known: Lookup) -> Table:
    """Make the table of six columns L x P with the product 100,000."""
    rows, used = [], []
    for query, engine in known.rows(PRODUCT):
        records = [known.find(query, *column, engine=engine) for column in PRODUCT]
        used += records
        rows.append([words(row_name(query, engine)), *(of(record, whole) for record in records), peak(records)])
    headers = [f"{logical} x {size}" for logical, size in PRODUCT]
    return Table(
        "product", "Logical x physical batches: seconds for the whole stream, L x P = 100,000",
        ["query", *headers, "peak rate"], rows, [FASTEST, *cutting(used)],
        mean_foot(rows, [None] * len(PRODUCT) + [rate]),
    )  # fmt: skip


def cutting(records: Iterable[QueryRecord | None]) -> list[str]:
    """Return a note about the time for cutting batches, which the engines' times do not include."""
    cut = sorted(min(record.cut) for record in records if record is not None and record.has_numbers and record.cut)
    if not cut:
        return []
    return [
        f"not included: cutting the batches and making their times, {seconds(cut[0]).text} to {seconds(cut[-1]).text}"
    ]


def workers(known: Lookup) -> list[Table]:
    """Make the tables of several workers: at 100000 x 1, and at each other measured batching."""
    others = {(record.logical, record.physical) for record in known.several}
    return [_workers(known, column) for column in (COARSE, *sorted(others - {COARSE}))]


def _workers(known: Lookup, column: Batching) -> Table:
    logical, size = column
    several = [each for each in known.several if (each.logical, each.physical) == column]
    numbers = sorted({1} | {record.workers for record in several})
    rows = []
    for engine, query in sorted({(record.engine, record.query) for record in several}, key=_ours_first):
        records = [known.find(query, *column, workers=number, engine=engine) for number in numbers]
        alone = sum(record is not None for record in records) == 1
        if alone and engine in (SPARK, SPARK_SQL) and column in ON_SPARK:
            continue  # the table of Spark has it
        rows.append([
            words(row_name(query, engine)), *(of(record, whole) for record in records), peak(records),
            _improvement(records), _cost(records, _rival(known, query, engine, column)),
        ])  # fmt: skip
    at = f"{logical} x {size}"
    return Table(
        "workers" if column == COARSE else f"workers-{logical}x{size}",
        f"Workers: seconds for the whole stream, {at}",
        ["query", at, *(f"{at} -w{number}" for number in numbers[1:]), "peak rate", "improvement", "COST"], rows,
        [FASTEST, COST],
        mean_foot(rows, [None] * len(numbers) + [rate, ratio, None]),
    )  # fmt: skip


def _ours_first(row: tuple[str, str]) -> tuple[bool, str, str]:
    engine, query = row
    return engine != EMBEDDED, engine, query


def _improvement(records: list[QueryRecord | None]) -> TableEntry:
    """Return the speed of the fastest number of workers relative to one."""
    first, *others = records
    rates = [record.rate for record in others if record is not None and record.has_numbers]
    if first is None or not first.has_numbers or not rates:
        return NOTHING
    return ratio(max(rates) / first.rate)


def _rival(known: Lookup, query: str, engine: str, column: Batching) -> QueryRecord | None:
    """Find the record that an engine's workers should beat: recomputing DuckDB, or one worker of ours."""
    if engine == EMBEDDED:
        return known.recomputed(query, column[0] * column[1])
    return known.find(query, *column)


def _cost(records: list[QueryRecord | None], rival: QueryRecord | None) -> TableEntry:
    measured = [record for record in records if record is not None]
    if rival is None or not rival.has_numbers:
        return NOTHING
    beaten = [record.workers for record in measured if record.has_numbers and record.rate > rival.rate]
    return (
        TableEntry(str(beaten[0]), beaten[0]) if beaten else TableEntry(f"more than {measured[-1].workers}", math.inf)
    )


def variants(known: Lookup) -> Table:
    """Make the table of the variants of queries beside those of the post."""
    theirs = {(each.query, each.variant): each.label for each in published.figures() if each.table == "physical"}
    rows = []
    for query, variant in _varied(known):
        records = [known.find(query, *column, variant=variant) for column in PHYSICAL]
        label = theirs.get((query, variant), "")
        rows.append(
            [words(f"{query} {variant}"), *(of(record, whole) for record in records), peak(records), words(label)]
        )
    return Table(
        "variants", "Dataflows of one query: seconds for the whole stream, L = 1",
        ["query", *(f"{size:,}" for _, size in PHYSICAL), "peak rate", "the post's"], rows,
        [FASTEST, "the other tables show the first dataflow of a query"],
    )  # fmt: skip


def _varied(known: Lookup) -> list[tuple[str, str]]:
    """List the measured variants of queries that have several, the default one first."""
    variants: dict[str, dict[str, bool]] = {}
    for record in known.records:
        if record.engine == EMBEDDED:
            variants.setdefault(record.query, {})[record.variant] = record.is_default
    return [
        (query, variant)
        for query, named in sorted(variants.items())
        if len(named) > 1
        for variant in sorted(named, key=lambda name, named=named: (not named[name], name))  # type: ignore[misc]
    ]
