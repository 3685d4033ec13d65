"""Laws of the feed: all batches together are the workload, for batches of any size and any number of workers."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.harness.tiny_data import tiny
from support.harness.written_workloads import DEFINITIONS, OTHERS, Change, listed, written
from support.paths import ROOT

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta, Feed
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.arrivals import Window
from deltamark.datagen.workloads.registry import KINDS, PLAIN, workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError


def timed(changes: list[Change], logical: int) -> Counter[tuple[str, int, int, int]]:
    return Counter(
        (name, row, 8 * (round_ // logical) + RELATIONS[name].rank, diff) for round_, name, row, diff in changes
    )


def seen(deltas: list[Delta]) -> Counter[tuple[str, int, int, int]]:
    return Counter(
        (delta.relation, row, time, diff)
        for delta in deltas
        for row, time, diff in zip(delta.rows, delta.time.tolist(), delta.diff.tolist(), strict=True)
    )


def test_every_workload_has_a_law():
    assert sorted([*DEFINITIONS, *OTHERS]) == sorted([*PLAIN, *KINDS])
    for name, path in OTHERS.items():
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8")), path


@st.composite
def tiny_data(draw):
    lines = draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    return lines, draw(st.integers(1, 9)), draw(st.sampled_from([1, 2, 4, 64]))


@given(
    tiny_data(),
    st.sampled_from(list(DEFINITIONS)),
    st.integers(1, 14),
    st.integers(1, 9),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(1, 3),
)
def test_the_batches_of_all_workers_are_the_workload(shape, kind, size, logical, physical, workers):
    lines, others, chunk_rows = shape
    with tempfile.TemporaryDirectory() as directory:
        dataset = tiny(Path(directory), lines, others, chunk_rows)
        name = kind if kind == "insert" else f"{kind}:{min(size, len(lines))}"
        work = workload(dataset, name)
        assert batches(work, logical, physical, workers) == timed(written(dataset, name), logical)
        assert {each: work.most_live(each) for each in RELATIONS} == most_live(written(dataset, name), kind)
        assert work.rounds == 1 + max(change[0] for change in written(dataset, name))


@given(
    tiny_data(),
    st.sampled_from(["update", "churn", "hot"]),
    st.integers(1, 4),
    st.integers(1, 9),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.integers(1, 3),
)
def test_the_batches_of_all_workers_have_every_step(shape, kind, size, logical, physical, workers):
    lines, others, chunk_rows = shape
    with tempfile.TemporaryDirectory() as directory:
        work = workload(tiny(Path(directory), lines, others, chunk_rows), f"{kind}:{min(size, len(lines))}")
        changes = listed(work)
        assert batches(work, logical, physical, workers) == timed(changes, logical)
        assert all(rows <= work.most_live(name) for name, rows in most_live(changes, kind).items())


def batches(work: Workload, logical: int, physical: list[int], workers: int) -> Counter[tuple[str, int, int, int]]:
    """Cut a workload into batches, and check each; return all changes."""
    wanted = {relation.name: [column.name for column in relation.columns] for relation in RELATIONS.values()}
    found: Counter[tuple[str, int, int, int]] = Counter()
    for worker in range(workers):
        feed = Feed(work, wanted, logical=logical, worker=worker, workers=workers)
        sizes, live, keys = itertools.cycle(physical), set(), set()
        while not feed.done:
            first = feed.round // logical
            batch = feed.take(size := next(sizes))
            for delta in batch:
                check_delta(work.dataset, delta, first, first + size)
                if workers == 1:
                    check_order(delta, live)
                    check_keys(work, delta, keys)
            found += seen(batch)
    return found


def check_order(delta: Delta, live: set[tuple[str, int]]) -> None:
    """Check that a row arrives if it is not live, and leaves if it is."""
    for row, diff in zip(delta.rows, delta.diff.tolist(), strict=True):
        position = (delta.relation, int(row))
        assert (position in live) == (diff < 0)
        live ^= {position}


def check_keys(work: Workload, delta: Delta, live: set[tuple]) -> None:
    """Check that a key arrives if it is not live, and leaves if it is."""
    key = work.key(delta.relation)
    assert key
    columns = [np.asarray(delta.columns[name]).tolist() for name in key]
    for diff, *values in zip(delta.diff.tolist(), *columns, strict=True):
        row = (delta.relation, *values)
        assert (row in live) == (diff < 0)
        live ^= {row}


def test_a_key_that_two_rows_have_is_none(chunked):
    """Below scale factor 0.01, TPC-H's generator gives some parts a supplier twice."""
    work = workload(chunked, "insert")
    assert work.key("orders") == ("orderkey",)
    assert work.key("partsupp") == ()


@given(tiny_data(), st.integers(1, 11), st.integers(2, 4), st.integers(1, 9), st.integers(1, 9), st.integers(1, 2))
def test_a_window_of_several_cycles_is_the_window_over_the_orders_again_and_again(
    shape, size, cycles, logical, physical, workers
):
    lines, others, chunk_rows = shape
    lines = [*lines, 1]
    size = min(size, len(lines) - 1)
    with tempfile.TemporaryDirectory() as directory:
        dataset = tiny(Path(directory), lines, others, chunk_rows)
        again = tiny(Path(directory, "again"), lines * cycles, others, chunk_rows)
        wanted = Counter()
        for (name, row, time, diff), count in timed(written(again, f"window:{size}"), logical).items():
            in_cycle = row % dataset.rows(name) if name in ("orders", "lineitem") else row
            wanted[name, in_cycle, time, diff] += count
        work = Window(dataset, size, cycles)
        found: Counter[tuple[str, int, int, int]] = Counter()
        for worker in range(workers):
            columns = {name: ["comment"] for name in RELATIONS}
            feed = Feed(work, columns, logical=logical, worker=worker, workers=workers)
            for batch in feed.batches(physical):
                for delta in batch:
                    rows = dataset.table(delta.relation).column("comment").take(list(delta.rows))
                    assert delta.columns["comment"].tolist() == rows.to_pylist()
                    assert (np.diff(delta.time) >= 0).all()
                found += seen(batch)
        assert found == wanted
        assert {each: work.most_live(each) for each in RELATIONS} == {
            each: workload(again, f"window:{size}").most_live(each) for each in RELATIONS
        }


def most_live(changes: list[Change], kind: str) -> dict[str, int]:
    """Count the rows at the end of each round; for `refresh` the bound is the number of all rows."""
    live, most = Counter(), dict.fromkeys(RELATIONS, 0)
    for _, of_round in itertools.groupby(sorted(changes), key=lambda change: change[0]):
        for _, name, _, diff in of_round:
            live[name] += diff if kind != "refresh" else max(diff, 0)
        most = {name: max(most[name], live[name]) for name in RELATIONS}
    return most


def check_delta(dataset: Dataset, delta: Delta, first: int, last: int) -> None:
    assert len(delta.time)
    assert (np.diff(delta.time) >= 0).all()
    assert first <= delta.time[0] // 8
    assert delta.time[-1] // 8 < last
    assert all(address == delta.columns[name].ctypes.data for name, address in delta.addresses.items())
    table = dataset.table(delta.relation).take(dataset.numbers(delta.relation, np.array(delta.rows)))
    for name, values in delta.columns.items():
        stored = table.column(name)
        if RELATIONS[delta.relation].column(name).kind == "code":
            words = dataset.dictionary(delta.relation, name).to_pylist()
            assert [words[code] for code in values] == stored.to_pylist()
        else:
            assert values.tolist() == stored.to_pylist()


@pytest.mark.parametrize(
    "name", ["insert", "window:100", "window:5000", "refresh:3", "slide:1500", "late:700", "expire:90"]
)
@pytest.mark.parametrize(("logical", "physical"), [(1, 1000), (7, 13), (1000, 1), (10**9, 1)])
def test_real_data_is_cut_into_the_workload(chunked, name, logical, physical):
    work = workload(chunked, name)
    feed = Feed(work, {relation: ["comment"] for relation in RELATIONS}, logical=logical)
    deltas = [delta for batch in feed.batches(physical) for delta in batch]
    assert seen(deltas) == timed(written(chunked, name), logical)


def test_an_insert_within_a_file_is_a_view(sf001):
    feed = Feed(workload(sf001, "insert"), {"lineitem": ["orderkey", "shipmode", "comment"]})
    (delta,) = feed.take(1000)
    whole = sf001.narrow_pieces("lineitem", "orderkey")[0]
    assert delta.columns["orderkey"].base is whole or np.shares_memory(delta.columns["orderkey"], whole)
    stored = sf001.table("lineitem").column("comment").chunk(0)
    assert delta.columns["comment"].buffers()[2].address == stored.buffers()[2].address


def test_only_the_listed_columns_are_read(sf001):
    fresh = Dataset(sf001.directory, sf001.manifest)
    feed = Feed(workload(fresh, "insert"), {"orders": ["custkey"]})
    assert set(feed.take(10)[0].columns) == {"custkey"}
    assert fresh.pieces.cache_info().currsize == 1
    assert fresh._batch.cache_info().currsize == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: workload(d, "windw:3"), "unknown workload: windw:3; did you mean window:N"),
        (lambda d: workload(d, "window:0"), "window:N needs a whole number N: '0'; write one from 1 to 1000"),
        (lambda d: workload(d, "refresh"), "refresh:K needs a whole number K: ''; write one from 1 to 1000"),
        (
            lambda d: workload(d, "refresh:2000"),
            "not enough orders to hold back: refresh:2000; at this scale at most refresh:1500",
        ),
        (
            lambda d: workload(d, "slide:7000"),
            "the window is longer than the longest relation: slide:7000; at this scale at most slide:6005",
        ),
        (
            lambda d: workload(d, "late:7000"),
            "the delay exceeds the longest relation: late:7000; give at most late:6005",
        ),
        (
            lambda d: workload(d, "churn:1501"),
            "more changes of orders than there are orders: churn:1501; at this scale at most churn:1500",
        ),
        (
            lambda d: workload(d, "hot:601"),
            "more rounds than groups of customer and part: hot:601; at this scale at most hot:600",
        ),
        (
            lambda d: Window(d, 1500, cycles=2),
            "an event would arrive again before it leaves: window:1500; at this scale at most window:1499",
        ),
        (
            lambda d: workload(d, "insert").check_end(15, 10),
            "no boundary of logical batches of 10: 15 rounds; give 10 or 20",
        ),
        (
            lambda d: workload(d, "window:9").check_end(2000, 7),
            "no boundary of logical batches of 7: 2000 rounds; give 1498 or 1501",
        ),
        (
            lambda d: Feed(workload(d, "insert"), {}, logical=0),
            "a logical batch is at least 1: 0; give a whole number from 1 up",
        ),
        (
            lambda d: Feed(workload(d, "insert"), {}, worker=2, workers=2),
            "no such worker of 2: 2; give one from 0 to 1",
        ),
        (
            lambda d: Feed(workload(d, "insert"), {"orders": ["custkye"]}),
            "unknown column of orders: custkye; did you mean custkey",
        ),
    ],
    ids=[
        "workload",
        "window-0",
        "refresh-without-steps",
        "refresh-beyond-the-orders",
        "slide-beyond-the-rows",
        "late-beyond-the-rows",
        "churn-of-too-many-orders",
        "hot-beyond-the-customers",
        "window-of-all-orders-in-cycles",
        "between-batches",
        "beyond-the-end",
        "logical-0",
        "worker",
        "column",
    ],
)
def test_misuse_is_an_error_in_one_line(chunked, make, message):
    with pytest.raises(DeltamarkError) as error:
        make(chunked)
    assert str(error.value).startswith(message)
