"""Laws of workloads over several relations of events, whose members belong to them by a key of two columns."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.harness.local_tasks import tasks_in_process

from deltamark.datagen.feed import Feed
from deltamark.datagen.make import Wanted, make_data
from deltamark.datagen.workloads.arrivals import Window
from deltamark.datagen.workloads.registry import small_workloads, workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import described
from deltamark.harness.check.oracle import LiveRows

DESCRIPTION = """
[relations.refunds]
key = ["item", "bill"]
references = { customer = "customers", "item bill" = "sales" }
member_of = "sales"
changing = "amount"

[relations.sales]
key = ["item", "bill"]
references = { customer = "customers" }
roles = "events"
changing = "amount"

[relations.visits]
key = "visit"
roles = "events"

[relations.customers]
key = "customer"
roles = "hot"
"""
SALES, VISITS, CUSTOMERS = 37, 14, 5
STEPS = ("refresh:3", "update:4", "churn:4", "hot:6")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder, chance = tmp_path_factory.mktemp("shop"), Random(1)
    keys = [(chance.randrange(9), bill) for bill in range(SALES)]
    refunded = chance.sample(keys, 20)
    day = date(2026, 1, 1)

    def of_sales(keys):
        items, bills = zip(*keys, strict=True)
        customers = [chance.choice([None, *range(CUSTOMERS)]) for _ in keys]
        return {"item": items, "bill": bills, "customer": pa.array(customers), "amount": [*range(len(keys))]}

    tables = {
        "sales": {**of_sales(keys), "sold": [day + timedelta(days=bill // 3) for _, bill in keys]},
        "refunds": of_sales(refunded),
        "visits": {"visit": [*range(VISITS)], "seen": [day + timedelta(days=n) for n in range(VISITS)]},
        "customers": {"customer": [*range(CUSTOMERS)]},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    (folder / "benchmark.toml").write_text(DESCRIPTION)
    source = described(folder).source
    with tasks_in_process():
        return make_data(Wanted(folder / "data", Decimal(1), source=source, chunk_rows=8), lambda *_: None)[0]


def changes(work, name):
    """List the changes of a relation: round, position, diff."""
    return [
        (round_, int(row), piece.diff)
        for round_ in range(work.rounds)
        for piece in work.pieces(name, round_, round_ + 1)
        for row in piece.rows
    ]


def keys_of(dataset, name, rows):
    return list(zip(*(dataset.values(name, column, rows).tolist() for column in ("item", "bill")), strict=True))


def with_refunds(dataset, of_sales):
    """Return the changes of the refunds of some sales."""
    sold = keys_of(dataset, "sales", range(SALES))
    place = {key: row for row, key in enumerate(keys_of(dataset, "refunds", range(dataset.rows("refunds"))))}
    return [(round_, place[sold[row]], diff) for round_, row, diff in of_sales if sold[row] in place]


@pytest.mark.parametrize("cycles", [1, 3])
@pytest.mark.parametrize("size", [1, 9, 36, 60])
def test_a_window_spreads_the_events_of_shorter_relations_evenly(dataset, size, cycles):
    if cycles > 1 and size >= SALES:
        with pytest.raises(DeltamarkError, match="an event would arrive again before it leaves"):
            Window(dataset, size, cycles)
        return
    work = Window(dataset, size, cycles)
    assert work.rounds == cycles * SALES + 1
    for name, rows in (("sales", SALES), ("visits", VISITS)):
        come = [(cycle * SALES + row * SALES // rows + 1, row) for cycle in range(cycles) for row in range(rows)]
        wanted = [(round_, row, 1) for round_, row in come]
        wanted += [(round_ + size, row, -1) for round_, row in come if round_ + size < work.rounds]
        assert sorted(changes(work, name)) == sorted(wanted)
        if name == "sales":
            assert sorted(changes(work, "refunds")) == sorted(with_refunds(dataset, wanted))
    assert changes(work, "customers") == [(0, row, 1) for row in range(CUSTOMERS)]


def test_a_refresh_has_steps_of_each_relation(dataset):
    work = workload(dataset, "refresh:3")
    load = work.rounds - 6
    assert load == SALES - 3
    for name, rows in (("sales", SALES), ("visits", VISITS)):
        wanted = [(row, row, 1) for row in range(rows - 3)]
        wanted += [(load + 2 * step, rows - 3 + step, 1) for step in range(3)]
        wanted += [(load + 2 * step + 1, step, -1) for step in range(3)]
        assert sorted(changes(work, name)) == sorted(wanted)
    moved = [change for change in changes(work, "sales") if change[0] >= load]
    refunds = [change for change in changes(work, "refunds") if change[0] >= load]
    assert sorted(refunds) == sorted(with_refunds(dataset, moved))
    with pytest.raises(DeltamarkError, match=r"not enough visits to hold back: refresh:15; at this scale at most"):
        workload(dataset, "refresh:15")


def test_events_of_all_relations_expire_by_their_dates(dataset):
    work = workload(dataset, "expire:4")
    assert work.rounds == 2 + max((SALES - 1) // 3, VISITS - 1)
    for name, days in (("sales", [row // 3 for row in range(SALES)]), ("visits", range(VISITS))):
        wanted = [(1 + day, row, 1) for row, day in enumerate(days)]
        wanted += [(5 + day, row, -1) for row, day in enumerate(days) if 5 + day < work.rounds]
        assert sorted(changes(work, name)) == sorted(wanted)
        if name == "sales":
            assert sorted(changes(work, "refunds")) == sorted(with_refunds(dataset, wanted))


@pytest.mark.parametrize("name", ["window:7", "expire:4", *STEPS])
def test_a_member_lives_as_long_as_its_event_and_no_bound_is_exceeded(dataset, name):
    """A load inserts the rows of each relation one by one."""
    work = workload(dataset, name)
    live = {relation: LiveRows(work, relation, 1) for relation in dataset.relations}
    loaded = work.rounds - 7 if name.startswith("refresh") else work.load_rounds
    for round_ in range(loaded, work.rounds):
        for each in live.values():
            each.move(8 * round_ + 7)
        rows = {relation: np.flatnonzero(each.mask) for relation, each in live.items()}
        assert all(len(found) <= work.most_live(relation) for relation, found in rows.items())
        refunds, sales = (set(keys_of(work.dataset, relation, rows[relation])) for relation in ("refunds", "sales"))
        refunded = set(keys_of(dataset, "refunds", range(dataset.rows("refunds"))))
        assert refunds == sales & refunded


@pytest.mark.parametrize("name", ["window:7", "expire:4", "update:4", "hot:6"])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_batches_of_all_workers_are_the_workload(dataset, name, workers):
    work = workload(dataset, name)
    found: Counter[tuple[str, int, int, int]] = Counter()
    for worker in range(workers):
        feed = Feed(work, {each: ["customer"] for each in ("sales", "refunds")}, worker=worker, workers=workers)
        for delta in (delta for batch in feed.batches(5) for delta in batch):
            rounds = (delta.time // 8).tolist()
            found.update(zip([delta.relation] * len(rounds), rounds, delta.rows, delta.diff.tolist(), strict=True))
    assert found == Counter((each, *change) for each in ("sales", "refunds") for change in changes(work, each))


def test_all_kinds_of_workloads_apply(dataset):
    kinds = {name.partition(":")[0] for name in small_workloads(dataset.relations)}
    assert kinds >= {"window", "refresh", "expire", "update", "churn", "hot"}
