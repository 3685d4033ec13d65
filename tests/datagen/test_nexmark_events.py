"""Laws of the events of Nexmark: their proportions, their references, and that tasks do not change them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.harness.local_tasks import tasks_in_process

from deltamark.datagen.make import Wanted, make_data
from deltamark.datagen.nexmark import (
    CITIES,
    CYCLE,
    FIRST_ID,
    FIRST_MS,
    HOT,
    HOT_CHANNELS,
    INTERVAL_MS,
    KINDS,
    LEAD,
    OPEN_AUCTIONS,
    STATES,
    NexmarkGenerator,
    side_input,
    uniform,
)
from deltamark.datagen.workloads.registry import workload

EVENTS = 60_000


def stored(data, events, block_events):
    """Make the data of some events, which are drawn in blocks."""
    source = NexmarkGenerator(block_events)
    with tasks_in_process():
        return make_data(Wanted(data, Decimal(events) / 10**6, source=source), lambda *_: None)[0]


@pytest.fixture(scope="module")
def tables():
    return {name: pa.Table.from_batches([kind.batch(0, EVENTS)]) for name, kind in KINDS.items()}


def column(tables, relation, name):
    return tables[relation].column(name).to_numpy()


def share(condition):
    return float(np.mean(condition))


def test_a_cycle_has_one_person_three_auctions_and_46_bids():
    assert {name: kind.rows_of(CYCLE) for name, kind in KINDS.items()} == {"person": 1, "auction": 3, "bid": 46}
    for events in range(3 * CYCLE):
        assert sum(kind.rows_of(events) for kind in KINDS.values()) == events


def test_each_event_is_one_row():
    numbers = [kind.events_of(np.arange(kind.rows_of(EVENTS))) for kind in KINDS.values()]
    assert np.sort(np.concatenate(numbers)).tolist() == list(range(EVENTS))


def test_an_event_happens_at_its_time(tables):
    for name, kind in KINDS.items():
        events = kind.events_of(np.arange(tables[name].num_rows))
        assert (column(tables, name, "date_time") == FIRST_MS + INTERVAL_MS * events).all()


@pytest.mark.parametrize("block", [100, 333, 5000])
def test_blocks_do_not_change_the_rows(tmp_path, tables, block):
    dataset = stored(tmp_path, 1234, block)
    for relation, kind in KINDS.items():
        expected = tables[relation].slice(0, kind.rows_of(1234))
        for name in kind.schema.names:
            assert dataset.table(relation)[name].to_pylist() == expected[name].to_pylist()


@pytest.mark.parametrize("size", [0, 70])
def test_each_event_arrives_in_its_round_and_leaves_when_it_is_old(tmp_path, size):
    dataset = stored(tmp_path, 1234, 1000)
    work = workload(dataset, f"slide:{size}" if size else "insert")
    assert work.rounds == 1234 + size
    found = Counter()
    for relation in KINDS:
        for piece in work.pieces(relation, 0, work.rounds):
            found.update((piece.diff, round_) for round_ in piece.rounds.tolist())
    leaving = {(-1, event + size): 1 for event in range(1234)} if size else {}
    assert found == {**{(1, event): 1 for event in range(1234)}, **leaving}
    (piece,) = work.pieces("side_input", 0, work.rounds)
    assert (len(piece.rows), set(piece.rounds.tolist())) == (10_000, {0})


def test_identifiers_are_consecutive(tables):
    for relation in ("person", "auction"):
        assert column(tables, relation, "id").tolist() == list(range(FIRST_ID, FIRST_ID + tables[relation].num_rows))


def test_hot_auctions_bidders_sellers_and_channels_have_their_shares(tables):
    events = KINDS["bid"].events_of(np.arange(tables["bid"].num_rows))
    last_person, last_auction = events // CYCLE, events // CYCLE * 3 + 2
    auction, bidder = column(tables, "bid", "auction") - FIRST_ID, column(tables, "bid", "bidder") - FIRST_ID
    assert 0.50 < share(auction == last_auction // HOT * HOT) < 0.52
    assert 0.74 < share(bidder == last_person // HOT * HOT + 1) < 0.76
    person_before = KINDS["auction"].events_of(np.arange(tables["auction"].num_rows)) // CYCLE
    assert 0.73 < share(column(tables, "auction", "seller") - FIRST_ID == person_before // HOT * HOT) < 0.77
    channels = pc.is_in(tables["bid"].column("channel"), pa.array(HOT_CHANNELS)).to_numpy()
    assert 0.49 < share(channels) < 0.51


def test_a_bid_is_for_an_auction_that_is_open_or_comes_soon(tables):
    events = KINDS["bid"].events_of(np.arange(tables["bid"].num_rows))
    ahead = column(tables, "bid", "auction") - FIRST_ID - (events // CYCLE * 3 + 2)
    assert (ahead.min(), ahead.max()) == (-OPEN_AUCTIONS, LEAD)


def test_prices_are_even_over_powers_of_ten(tables):
    powers = Counter(np.floor(np.log10(column(tables, "bid", "price"))).astype(int).tolist())
    assert set(powers) <= {*range(2, 9)}
    assert all(abs(powers[power] / tables["bid"].num_rows - 1 / 6) < 0.01 for power in range(2, 8))


def test_rows_have_the_bytes_of_nexmark(tables):
    for relation, size in (("person", 200), ("auction", 500), ("bid", 100)):
        hidden = ("channel", "url")  # Nexmark does not count these two
        kept = tables[relation].drop_columns([name for name in hidden if name in tables[relation].column_names])
        texts = [each.name for each in kept.schema if pa.types.is_string(each.type)]
        letters = sum(pc.sum(pc.binary_length(kept.column(name))).as_py() for name in texts)
        numbers = 8 * (kept.num_columns - len(texts)) * kept.num_rows
        assert abs((letters + numbers) / kept.num_rows - size) < 0.06 * size


def test_texts_have_the_shape_of_their_columns(tables):
    rows = tables["person"].slice(0, 200).to_pylist() + tables["person"].slice(1000).to_pylist()
    assert {row["state"] for row in rows} == set(STATES)
    assert {row["city"] for row in rows} == set(CITIES)
    cards = pc.match_substring_regex(tables["person"].column("credit_card"), r"^(\d{4} ){3}\d{4}$")
    emails = pc.match_substring_regex(tables["person"].column("email_address"), r"^[a-z]{7}@[a-z]{5}\.com$")
    urls = pc.match_substring_regex(tables["bid"].column("url"), r"^https://www\.nexmark\.com/(\w{5}/){3}item\.htm\?")
    assert all(pc.all(each).as_py() for each in (cards, emails, urls))
    assert pc.count_distinct(tables["bid"].column("extra")).as_py() == tables["bid"].num_rows


def test_the_side_input_has_every_remainder():
    assert side_input().column("key").to_pylist() == list(range(10_000))


def test_draws_for_different_purposes_are_independent():
    events = np.arange(EVENTS)
    one, other = uniform("one", events, 10), uniform("other", events, 10)
    counts = np.bincount(one * 10 + other, minlength=100)
    assert abs(counts / EVENTS - 0.01).max() < 0.002
