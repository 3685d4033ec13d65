"""The examples of any kind, and the answers that are expected of an engine."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from support.engines.driving import Engine, added, between, feed
from support.random_plans.case import described
from support.random_plans.growth import degree
from support.random_plans.streams import MANY_ROWS, Streams, inputs_of, times_of
from support.reference.answers import Recomputed
from support.reference.errors import LongSubstringError, OutOfRangeError, PlanError, WideNumberError
from support.reference.required import has_checked_numbers, is_whole, reads_checked_numbers
from support.reference.rows import Row, Stream, minus

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.types import NULL
from deltamark.errors import DeltamarkError

SLICED = (
    "deltamark.dataflow.builder.program",
    "deltamark.dataflow.runtime.backfill",
    "deltamark.dataflow.runtime.inputs",
)
"""Modules that have the number of rows in a slice as SLICE_ROWS."""

CAUSES = {each.cause for each in PlanError.__subclasses__()}
WIDE_WEIGHT = "a weight needs more than 64 bits"
NEGATIVE = "a negative multiplicity"
OUT_OF_BOUNDS = "a sum is out of bounds"
OUT_OF_RANGE = {WideNumberError.cause, OutOfRangeError.cause, LongSubstringError.cause}


class WrongError(Exception):
    """An unexpected answer of an engine. what: its description, in words that do not depend on the example."""

    def __init__(self, what: str, details: str) -> None:
        super().__init__(what, details)
        self.what, self.details = what, details

    def __str__(self) -> str:
        return f"{self.what}: {self.details}"


class Example(Protocol):
    """An example, which raises an error if it fails, and whose text describes it.

    traits: what the report counts of an example that has run.
    """

    def run(self) -> None: ...

    def traits(self) -> Iterable[str]: ...


def traits_of(
    number: int, runners: str = "worker", *, has_null: bool, retracts: bool, texts: Sequence[str]
) -> Iterator[str]:
    """Yield the traits of an example that some workers, or others, have run."""
    yield f"on {number} {runners}{'s' * (number > 1)}"
    yield from ["with NULL"] * has_null
    yield from ["with retractions"] * retracts
    yield from ["from SQL"] * bool(texts)


def have_null(rows: Iterable[Row]) -> bool:
    return any(NULL in row for row in rows)


def retract(streams: Streams) -> bool:
    return any(diff < 0 for stream in streams.values() for _, _, diff in stream)


@runtime_checkable
class Simplifiable(Example, Protocol):
    """An example that names simpler ones, some of which may not be valid."""

    def simpler(self) -> Iterator[Simplifiable]: ...


@contextlib.contextmanager
def slices(rows: int) -> Iterator[None]:
    """Set the number of rows of a slice."""
    with contextlib.ExitStack() as stack:
        for name in SLICED:
            stack.enter_context(changed(name, SLICE_ROWS=rows))
        stack.enter_context(changed("deltamark.dataflow.builder.program", WORKERS_SLICE_FACTOR=1))
        stack.enter_context(changed("deltamark.dataflow.operators.exchange", MIN_DIVIDED_ROWS=1))
        stack.enter_context(changed("deltamark.dataflow.runtime.backfill", BATCH_ROWS=rows))
        yield


@contextlib.contextmanager
def changed(module: str, **values: object) -> Iterator[None]:
    """Replace the constants of a module."""
    found = importlib.import_module(module)
    before = {name: getattr(found, name) for name in values}
    vars(found).update(values)
    try:
        yield
    finally:
        vars(found).update(before)


@dataclass
class Expected:
    """The change stream of a plan up to its first error, if there is one."""

    stream: Stream
    errors: list[PlanError] = field(default_factory=list)
    """The first error of each node, in order of time. An engine runs an operator over several times before the next."""
    must_fail: bool = False
    """Whether the engine must raise one of these errors, and no other: it may miss one that depends on columns that no
    operator reads.
    """
    excuses: dict[str, int] = field(default_factory=dict)
    """The errors that are allowed from a time on, although the reference may not raise them."""
    has_null: bool = False
    """Whether a node of the plan has a row with NULL at some time."""
    has_shards: bool = False
    """Whether an operator runs in shards, one after another: the first that fails ends the feed, although another one
    would fail at an earlier time.
    """

    def allows(self, error: DeltamarkError, last: int) -> bool:
        """Return whether an error is allowed in a feed that ends with a time."""
        times = {each.time for each in self.errors if each.time <= last}
        if times and not self.must_fail and error.cause in CAUSES:
            return True
        same = {each.time for each in self.errors if each.cause == error.cause} & times
        if error.time in same or (same and error.cause in OUT_OF_RANGE):
            return True
        if self.has_shards and error.time is not None:
            found = [each for each in self.errors if each.cause == error.cause and each.time <= error.time <= last]
            if found:
                return True
        return error.cause in self.excuses and self.excuses[error.cause] <= last

    def fails(self, last: int) -> bool:
        """Return whether the plan fails up to a time."""
        return any(each.time <= last for each in self.errors)

    def until(self, time: int) -> Stream:
        return {change: diff for change, diff in self.stream.items() if change[0] <= time}


def expected(collection: Collection, streams: Streams) -> Expected:
    """Compute the expected changes of a plan."""
    found = Expected({})
    recomputed, before = Recomputed(collection.node, streams), {}
    for time in sorted({*times_of(streams), 0}):
        recomputed.move(time)
        found.has_null = found.has_null or any(map(have_null, recomputed.rows.values()))
        if not recomputed.errors:
            now = recomputed.rows[collection.node]
            found.stream |= {(time, row): diff for row, diff in minus(now, before).items()}
            before = now
    found.errors = recomputed.errors
    found.must_fail = is_whole(collection.node) and reads_checked_numbers(collection.node)
    if has_checked_numbers(collection.node):  # of a row that comes and goes within a time
        found.excuses |= dict.fromkeys(OUT_OF_RANGE, 0)
    if (negative := first_negative(streams)) is not None:
        found.excuses[NEGATIVE] = found.excuses[OUT_OF_BOUNDS] = negative
    if degree(collection.node) > 1 and is_heavy(collection):
        found.excuses[WIDE_WEIGHT] = 0
    return found


def is_heavy(collection: Collection) -> bool:
    """Return whether weights may be so large that their products need more than 64 bits."""
    return any(each.rows >= MANY_ROWS for each in inputs_of(collection).values())


def first_negative(streams: Streams) -> int | None:
    """Return the first time at the end of which an input has a negative weight."""
    found = []
    for stream in streams.values():
        live: dict[object, int] = {}
        for at, (row, time, diff) in enumerate(stream):
            live[row] = live.get(row, 0) + diff
            ends = at + 1 == len(stream) or stream[at + 1][1] != time
            if ends and min(live.values()) < 0:
                found.append(time)
                break
    return min(found, default=None)


def check(
    engine: Engine, collection: Collection, streams: Streams, feeds: Iterable[Sequence[int]], wanted: Expected
) -> bool:
    """Feed an engine, and compare its changes with the expected ones; return whether it can be fed more."""
    said: Stream = {}
    last = -1
    for times in feeds:
        last = times[-1] if times else last
        try:
            part = feed(engine, collection, between(streams, set(times)))
        except DeltamarkError as error:
            if not wanted.allows(error, max(last, 0)):
                details = f"in the feed that ends with time {last}: {error}; expected: {wanted.errors or 'none'}"
                raise WrongError(f"an error, {error.cause}", details) from error
            return False
        if wanted.fails(last):
            if wanted.must_fail:
                raise WrongError("no error", f"in the feed that ends with time {last}; expected: {wanted.errors}")
            return False
        said = added([said, part])
        if last >= 0:
            compare(said, wanted.until(last))
    return True


def compare(said: Stream, wanted: Stream) -> None:
    """Raise an error that lists the differences of two streams, if they differ."""
    if said == wanted:
        return
    lines = [
        f"  time {change[0]}, row {change[1]}: expected {wanted.get(change, 0)}, but it is {said.get(change, 0)}"
        for change in sorted({**said, **wanted}, key=repr)
        if said.get(change, 0) != wanted.get(change, 0)
    ]
    raise WrongError("another change stream", "\n".join(["", *lines[:20], *(["  ..."] if len(lines) > 20 else [])]))


def written(collection: Collection, texts: Sequence[str], streams: Streams, **settings: object) -> str:
    """Return the text of an example."""
    lines = ["plan:", *described(collection), *(f"SQL: {text}" for text in texts), "streams (row, time, diff):"]
    lines += [f"  {name}: {list(stream)}" for name, stream in streams.items()]
    return "\n".join([*lines, *(f"{name}: {value}" for name, value in settings.items())])
