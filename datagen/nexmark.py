"""Nexmark: in each cycle of 50 events a person, three auctions, and 46 bids.

Proportions, hot values and leads are those of Nexmark's generator. A value is a function of the number of its event, so
a stream does not depend on the tasks that draw it, and a shorter stream is a prefix of a longer one.

- Half of the bids are for a hot auction, the first of the last hundred, the others for one of the last hundred auctions
  or of the next ten. Three quarters of the bids have a hot bidder, the second of the last hundred persons, and three
  quarters of the auctions a hot seller, the first of them; the others are among the last thousand persons, or the next
  ten. So some rows refer to rows that arrive later.
- An event happens 100 ms after the one before. (Nexmark's default is 0.1 ms, but then a million events are within one
  day.) The stream begins a minute before midnight, so that small streams have two days.
- A price is one of 6,001 values with evenly spaced logarithms, from 1 to 1,000,000 dollars in cents. Nexmark rounds a
  power to cents, whose last digit may depend on the machine.
- Times are milliseconds since 1970. Names of columns are in lower case, with underscores.

Scale factor 1 is a million events, drawn in blocks by a Spark job. Event i arrives in round i, so the rows of a
relation do not arrive in each round. The table side_input arrives in round 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamark.datagen.schema import CHANGES_SCHEMA, Relations, relation
from deltamark.datagen.seeded import hashed
from deltamark.datagen.source import Parts, Source
from deltamark.datagen.spark.session import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CYCLE = 50
"""The number of events in a cycle."""

AUCTIONS_PER_CYCLE = 3
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
HOT = 100
"""One in this many persons and auctions is hot."""

ACTIVE_PERSONS, OPEN_AUCTIONS, LEAD = 1000, 100, 10
"""The last persons and auctions to which events refer, and the next ones."""

FIRST_MS, INTERVAL_MS = 1_436_918_340_000, 100
AUCTION_MS = 2 * OPEN_AUCTIONS * CYCLE // AUCTIONS_PER_CYCLE * INTERVAL_MS
"""The longest duration of an auction. On average an auction ends when OPEN_AUCTIONS others have begun."""

PRICE_STEPS, STEPS_PER_POWER, MIN_PRICE = 6001, 1000, 100

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Bend", "Boise", "Cheyenne", "Kent", "Los Angeles", "Phoenix", "Portland", "Redmond", "San Francisco", "Seattle",
)  # fmt: skip
FIRST_NAMES = ("Ada", "Blaise", "Carl", "Dorothy", "Emmy", "Frances", "Grace", "Henri", "Isaac", "Julia", "Kurt")
LAST_NAMES = ("Baker", "Carter", "Fisher", "Hunter", "Mason", "Porter", "Smith", "Taylor", "Walker")
HOT_CHANNELS = ("Apple", "Baidu", "Facebook", "Google")
OTHER_CHANNELS = 10_000
SIDE_KEYS = 10_000
"""The rows of side_input, a table that does not change."""

Values = Mapping[str, "np.ndarray | pa.Array"]


@dataclass(frozen=True)
class EventKind:
    """A kind of events, which is a relation: `count` consecutive events in each cycle, from its event `first` on."""

    first: int
    count: int
    schema: pa.Schema
    draw: Callable[[np.ndarray], Values]
    """Returns the columns of the rows of some events."""

    def rows_of(self, events: int) -> int:
        """Return the number of rows among the first events."""
        cycles, rest = divmod(events, CYCLE)
        return cycles * self.count + min(max(rest - self.first, 0), self.count)

    def events_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of the events of some rows."""
        return rows // self.count * CYCLE + self.first + rows % self.count

    def batch(self, start: int, stop: int) -> pa.RecordBatch:
        """Draw the rows among the events start to stop - 1."""
        values = self.draw(self.events_of(np.arange(self.rows_of(start), self.rows_of(stop))))
        return pa.RecordBatch.from_arrays([pa.array(values[name]) for name in self.schema.names], schema=self.schema)


HASH_BYTES = 8
ALPHABET = 26


def uniform(purpose: str, events: np.ndarray, size: int | np.ndarray) -> np.ndarray:
    """Draw a number from 0 to size - 1 for each event."""
    return hashed(f"nexmark {purpose}", events) % size


def words(purpose: str, events: np.ndarray, known: Sequence[str]) -> pa.StringArray:
    """Draw one of the known words for each event."""
    return pa.array(known, pa.string()).take(pa.array(uniform(purpose, events, len(known))))


def letters(purpose: str, events: np.ndarray, low: int, high: int) -> pa.StringArray:
    """Draw a text of `low` to `high` lower-case letters for each event."""
    lengths = low + uniform(f"{purpose} length", events, high - low + 1)
    hashes = [hashed(f"nexmark {purpose} {part}", events) for part in range(-(-high // HASH_BYTES))]
    drawn = np.stack(hashes, axis=1).astype("<i8").view(np.uint8) % ALPHABET + ord("a")
    kept = drawn[np.arange(drawn.shape[1]) < lengths[:, None]]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(events), pa.py_buffer(ends), pa.py_buffer(kept.astype(np.uint8)))


def digits(purpose: str, events: np.ndarray, size: int) -> pa.StringArray:
    """Draw a decimal number of `size` digits for each event."""
    drawn = pa.array(uniform(purpose, events, 10**size)).cast(pa.string())
    return pc.utf8_lpad(drawn, size, "0")


def joined(gap: str, *parts: pa.StringArray | str) -> pa.StringArray:
    """Concatenate texts, with `gap` between them."""
    return pc.binary_join_element_wise(*parts, gap)


def _schema(numbers: str, texts: str) -> pa.Schema:
    types = {**dict.fromkeys(numbers.split(), pa.int64()), **dict.fromkeys(texts.split(), pa.string())}
    return pa.schema([pa.field(name, type_, nullable=False) for name, type_ in types.items()])


def _persons(events: np.ndarray) -> Values:
    names = (words("first name", events, FIRST_NAMES), words("last name", events, LAST_NAMES))
    mailbox, host = (letters(f"email {part}", events, size, size) for part, size in (("mailbox", 7), ("host", 5)))
    return {
        "id": FIRST_ID + events // CYCLE, "date_time": _time(events), "name": joined(" ", *names),
        "email_address": joined("", mailbox, "@", host, ".com"),
        "credit_card": joined(" ", *(digits(f"credit card {part}", events, 4) for part in range(4))),
        "city": words("city", events, CITIES), "state": words("state", events, STATES),
        "extra": letters("person", events, 100, 150),
    }  # fmt: skip


def _auctions(events: np.ndarray) -> Values:
    initial = _price("initial bid", events)
    return {
        "id": FIRST_ID + _last_auction(events), "initial_bid": initial, "reserve": initial + _price("reserve", events),
        "date_time": _time(events), "expires": _time(events) + 1 + uniform("duration", events, AUCTION_MS),
        "seller": _person("seller", events, 0), "category": FIRST_CATEGORY + uniform("category", events, CATEGORIES),
        "item_name": letters("item name", events, 3, 20), "description": letters("description", events, 3, 100),
        "extra": letters("auction", events, 310, 470),
    }  # fmt: skip


def _bids(events: np.ndarray) -> Values:
    last = _last_auction(events)
    oldest = np.maximum(last - OPEN_AUCTIONS, 0)
    any_open = oldest + uniform("auction", events, last - oldest + 1 + LEAD)
    auction = np.where(uniform("is auction hot", events, 2) > 0, last // HOT * HOT, any_open)
    channel = np.where(
        uniform("is channel hot", events, 2) > 0,
        uniform("hot channel", events, len(HOT_CHANNELS)),
        len(HOT_CHANNELS) + uniform("channel", events, OTHER_CHANNELS),
    )
    names, urls = _channels()
    return {
        "auction": FIRST_ID + auction, "bidder": _person("bidder", events, 1), "price": _price("bid", events),
        "date_time": _time(events), "channel": names.take(pa.array(channel)), "url": urls.take(pa.array(channel)),
        "extra": letters("bid", events, 55, 81),
    }  # fmt: skip


def _time(events: np.ndarray) -> np.ndarray:
    return FIRST_MS + INTERVAL_MS * events


def _last_auction(events: np.ndarray) -> np.ndarray:
    """Return the number of the last auction that is not after an event, which is an auction or a bid."""
    return events // CYCLE * AUCTIONS_PER_CYCLE + np.minimum(events % CYCLE, AUCTIONS_PER_CYCLE) - 1


def _person(purpose: str, events: np.ndarray, hot: int) -> np.ndarray:
    """Draw a person: in three of four events the one with the place `hot` among the last hundred."""
    last = events // CYCLE
    oldest = np.maximum(last + 1 - ACTIVE_PERSONS, 0)
    active = oldest + uniform(purpose, events, last + 1 - oldest + LEAD)
    return FIRST_ID + np.where(uniform(f"is {purpose} hot", events, 4) > 0, last // HOT * HOT + hot, active)


def _price(purpose: str, events: np.ndarray) -> np.ndarray:
    return _prices()[uniform(f"{purpose} price", events, PRICE_STEPS)]


@cache
def _prices() -> np.ndarray:
    exponents = (Decimal(step) / STEPS_PER_POWER for step in range(PRICE_STEPS))
    return np.array([round(MIN_PRICE * Decimal(10) ** each) for each in exponents])


@cache
def _channels() -> tuple[pa.StringArray, pa.StringArray]:
    """Return the names of all channels, and their addresses; nine of ten of the others have a number in theirs."""
    others = np.arange(OTHER_CHANNELS)
    numbered = uniform("is channel numbered", others, 10) > 0
    ids = [f"&channel_id={number}" if has_id else "" for number, has_id in enumerate(numbered.tolist())]
    places = np.arange(len(HOT_CHANNELS) + OTHER_CHANNELS)
    folders = (letters(f"folder {part}", places, 5, 5) for part in range(3))
    endings = pa.array([*[""] * len(HOT_CHANNELS), *ids])
    urls = joined("/", "https://www.nexmark.com", *folders, joined("", "item.htm?query=1", endings))
    return pa.array([*HOT_CHANNELS, *(f"channel-{number}" for number in range(OTHER_CHANNELS))]), urls


KINDS: Mapping[str, EventKind] = {
    "person": EventKind(
        0, 1, _schema("id date_time", "name email_address credit_card city state extra"),
        _persons,
    ),
    "auction": EventKind(
        1, AUCTIONS_PER_CYCLE, _schema(
            "id initial_bid reserve date_time expires seller category", "item_name description extra"
        ), _auctions,
    ),
    "bid": EventKind(
        1 + AUCTIONS_PER_CYCLE, CYCLE - 1 - AUCTIONS_PER_CYCLE,
        _schema("auction bidder price date_time", "channel url extra"), _bids,
    ),
}  # fmt: skip
"""The kinds of events by the names of their relations."""


def side_input() -> pa.Table:
    """Return the static table of query 13: a text for each number that an auction modulo 10,000 can have."""
    keys = np.arange(SIDE_KEYS)
    return pa.table([pa.array(keys), letters("side input", keys, 8, 8)], schema=_schema("key", "value"))


VERSION = 2
"""The version of the events."""

EVENTS = 1_000_000
"""The events of scale factor 1."""

BLOCK_EVENTS = 500_000
"""The number of events of a task, whose largest file has about 80 MB. Not tuned."""

SIDE_INPUT = "side_input"

RELATIONS = Relations((
    relation(
        "auction", "", "id",
        "id:int initial_bid:int reserve:int date_time:int expires:int seller:int category:int item_name:text "
        "description:text extra:text",
        references=(("seller", "person"),),
    ),
    relation(
        "bid", "", "", "auction:int bidder:int price:int date_time:int channel:text url:text extra:text",
        references=(("auction", "auction"), ("bidder", "person")),
    ),
    relation(
        "person", "", "id",
        "id:int date_time:int name:text email_address:text credit_card:text city:code state:code extra:text",
    ),
    relation(SIDE_INPUT, "", "key", "key:int value:text", roles=("fixed",)),
))  # fmt: skip


@dataclass(frozen=True)
class BlockTask:
    """The events start to stop - 1 of a relation, to be written to a file."""

    kind: str
    start: int
    stop: int
    path: Path


class NexmarkGenerator(Source):
    name = "nexmark"
    relations = RELATIONS

    def __init__(self, block_events: int = BLOCK_EVENTS) -> None:
        self._block_events = block_events

    def version(self) -> str:
        return f"events{VERSION}"

    def parts(
        self, spark: Callable[[], SparkSession], sf: Decimal, making: Path, report: Callable[[int, int], None]
    ) -> Parts:
        events = int(sf * EVENTS)
        starts = range(0, events, self._block_events)
        tasks = [
            BlockTask(kind, start, min(start + self._block_events, events), making / f"{kind}-{number:05}.parquet")
            for kind in KINDS
            for number, start in enumerate(starts)
        ]
        run_tasks(spark(), write_block, tasks, lambda: report(sum(task.path.exists() for task in tasks), len(tasks)))
        files = {kind: [task.path for task in tasks if task.kind == kind] for kind in KINDS}
        files[SIDE_INPUT] = [making / f"{SIDE_INPUT}.parquet"]
        pq.write_table(side_input(), files[SIDE_INPUT][0])
        return Parts(RELATIONS, files, {name: _write_rounds(name, events, making) for name in RELATIONS})


def write_block(task: BlockTask) -> None:
    """Write the events of a block, whole or not at all."""
    making = task.path.with_suffix(".making")
    pq.write_table(pa.Table.from_batches([KINDS[task.kind].batch(task.start, task.stop)]), making)
    making.rename(task.path)


def _write_rounds(name: str, events: int, making: Path) -> Path:
    """Write the round in which each row arrives."""
    path, kind = making / f"rounds of {name}.parquet", KINDS.get(name)
    rows = np.arange(side_input().num_rows if kind is None else kind.rows_of(events))
    rounds = np.zeros_like(rows) if kind is None else kind.events_of(rows)
    pq.write_table(pa.table([rows, np.ones_like(rows), rounds], schema=CHANGES_SCHEMA), path)
    return path


NEXMARK = NexmarkGenerator()
