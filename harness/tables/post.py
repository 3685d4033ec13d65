"""The post's tables: physical batches, L x P with a constant product, workers, and the dataflows of one query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from deltamark.harness.console.formatting import NOTHING, TableEntry, brief, rate, ratio, words
from deltamark.harness.console.table import Table, mean_foot
from deltamark.harness.engines.registry import DEFAULT
from deltamark.harness.measure.batch_sizes import COARSE, ON_SPARK, PHYSICAL, PRODUCT, Batching
from deltamark.harness.results import published
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.tables.entry import entries, peak, whole
from deltamark.harness.tables.lookup import Lookup, RecordRow, row_name

COST = (
    "COST: the fewest workers that beat one thread of DuckDB recomputing after each batch; "
    "for other engines: that beat one worker of ours"
)
FASTEST = "the fastest of the timed runs; if only a sample was timed, its rate"
PHYSICAL_HEADERS = [f"{size:,}" for _, size in PHYSICAL]


def physical(lookup: Lookup) -> Table:
    """Make the table `1,000 10,000 100,000 1,000,000 peak rate hot dog`."""
    hot_dog, measured = published.hot_dog(), lookup.rows(PHYSICAL)
    rows = [
        [
            words(row.name), *entries(row.records, whole), peak(row.records),
            rate(hot_dog[row.query]) if row.query in hot_dog else NOTHING,
        ]
        for row in measured
    ]  # fmt: skip
    return Table(
        "physical", "Physical batches: seconds for the whole stream, L = 1",
        ["query", *PHYSICAL_HEADERS, "peak rate", "hot dog"], rows,
        [FASTEST, *_cutting(measured), published.sources()["hot-dog"].label],
        mean_foot(rows, [None] * len(PHYSICAL) + [rate, rate]),
    )  # fmt: skip


def product(lookup: Lookup) -> Table:
    """Make the table of six columns L x P with the product 100,000."""
    measured = lookup.rows(PRODUCT)
    rows = [[words(row.name), *entries(row.records, whole), peak(row.records)] for row in measured]
    headers = [f"{logical} x {size}" for logical, size in PRODUCT]
    return Table(
        "product", "Logical x physical batches: seconds for the whole stream, L x P = 100,000",
        ["query", *headers, "peak rate"], rows, [FASTEST, *_cutting(measured)],
        mean_foot(rows, [None] * len(PRODUCT) + [rate]),
    )  # fmt: skip


def _cutting(rows: Iterable[RecordRow]) -> list[str]:
    """Return a note about the time for cutting batches, which the engines' times do not include."""
    records = (record for row in rows for record in row.records if record is not None and record.has_numbers)
    cut = sorted(min(record.cut) for record in records if record.cut)
    if not cut:
        return []
    shortest, longest = brief(cut[0]).text, brief(cut[-1]).text
    return [f"not included: cutting the batches and making their times, {shortest} to {longest}"]


def workers(lookup: Lookup) -> list[Table]:
    """Make the tables of several workers: at 100000 x 1, and at each other measured batching."""
    others = {(record.logical, record.physical) for record in lookup.several}
    return [_workers(lookup, column) for column in (COARSE, *sorted(others - {COARSE}))]


def _workers(lookup: Lookup, column: Batching) -> Table:
    logical, size = column
    several = [record for record in lookup.several if (record.logical, record.physical) == column]
    numbers = sorted({1} | {record.workers for record in several})
    rows = []
    for engine, query in sorted({(record.engine, record.query) for record in several}, key=_ours_first):
        records = [lookup.find(query, *column, workers=number, engine=engine) for number in numbers]
        is_single = sum(record is not None for record in records) == 1
        if is_single and lookup.capabilities(engine).has_master and column in ON_SPARK:
            continue  # it is in the table of Spark
        rows.append([
            words(row_name(query, engine)), *entries(records, whole), peak(records),
            _improvement(records), _cost(records, _rival(lookup, query, engine, column)),
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
    return engine != DEFAULT, engine, query


def _improvement(records: Sequence[QueryRecord | None]) -> TableEntry:
    """Return the speed of the fastest number of workers relative to one."""
    first, *others = records
    rates = [record.rate for record in others if record is not None and record.has_numbers]
    if first is None or not first.has_numbers or not rates:
        return NOTHING
    return ratio(max(rates) / first.rate)


def _rival(lookup: Lookup, query: str, engine: str, column: Batching) -> QueryRecord | None:
    """Find the record that an engine's workers should beat: recomputing DuckDB, or one worker of ours."""
    if engine == DEFAULT:
        return lookup.recomputed(query, column[0] * column[1])
    return lookup.find(query, *column)


def _cost(records: Sequence[QueryRecord | None], rival: QueryRecord | None) -> TableEntry:
    if rival is None or not rival.has_numbers:
        return NOTHING
    measured = [record for record in records if record is not None]
    beating = [record.workers for record in measured if record.has_numbers and record.rate > rival.rate]
    if not beating:
        return TableEntry(f"more than {measured[-1].workers}", math.inf)
    return TableEntry(str(beating[0]), beating[0])


def variants(lookup: Lookup) -> Table:
    """Make the table of the variants of queries beside those of the post."""
    labels = {
        (figure.query, figure.variant): figure.label for figure in published.figures() if figure.table == "physical"
    }
    rows = []
    for query, variant in _varied(lookup):
        records = [lookup.find(query, *column, variant=variant) for column in PHYSICAL]
        label = words(labels.get((query, variant), ""))
        rows.append([words(f"{query} {variant}"), *entries(records, whole), peak(records), label])
    return Table(
        "variants", "Dataflows of one query: seconds for the whole stream, L = 1",
        ["query", *PHYSICAL_HEADERS, "peak rate", "the post's"], rows,
        [FASTEST, "the other tables show the first dataflow of a query"],
    )  # fmt: skip


def _varied(lookup: Lookup) -> list[tuple[str, str]]:
    """List the measured variants of queries that have several, the default one first."""
    ours = {
        (record.query, not record.is_default, record.variant) for record in lookup.records if record.engine == DEFAULT
    }
    queries = [query for query, _, _ in ours]
    return [(query, variant) for query, _, variant in sorted(ours) if queries.count(query) > 1]
