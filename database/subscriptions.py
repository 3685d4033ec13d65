"""Subscriptions to views: batches of the changes that each commit makes, for readers in any thread.

A commit adds its changes to each subscription, as the engine has them. The reader converts them to values, so a commit
does not wait for readers. A subscription holds a bounded number of rows: if there are more, they are freed, and the
reader gets an error.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from types import TracebackType
from typing import Self
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from deltamark.database.result import Result
from deltamark.database.views import View
from deltamark.dataflow.answer import net_values
from deltamark.dataflow.batch import Batch
from deltamark.errors import DeltamarkError

TIME, DIFF = "time", "diff"
"""The columns of changes that are no columns of the view."""

HELD_ROWS = 1_000_000
"""The changed rows that a subscription holds for its reader. Not tuned."""


class Changes(Result):
    """The changes that one commit made to a view: the columns `time`, `diff` and those of the view.

    diff: how many equal rows came, or went if it is negative. Rows that went stand before those that came. A changed
    row is one of each. Each row occurs once.
    """

    def __init__(self, time: int, table: pa.Table, types: Sequence[str]) -> None:
        super().__init__(table, types)
        self.time = time
        """The number of the commit. It grows from commit to commit while the database is open."""


@dataclass(frozen=True)
class Held:
    """Changes of a view that were not read yet: those of a commit, or the answer at the time of the subscription."""

    time: int
    changes: Batch | pa.Table

    @property
    def rows(self) -> int:
        return self.changes.num_rows if isinstance(self.changes, pa.Table) else len(self.changes.time)


class Subscription:
    """The changes of a view since the subscription, in batches of one commit each.

    It is an iterator and an asynchronous iterator, which wait for the next commit that changes the view. They end when
    the subscription or the connection is closed. `read` waits for a limited time.

    >>> con.execute("CREATE VIEW sold AS SELECT shop, count(*) AS n FROM sales GROUP BY shop")
    no rows
    >>> with con.subscribe("sold") as sold:
    ...     con.insert("sales", [{"shop": 5, "price": 2}])
    ...     next(sold).fetchall()
    1
    [(3, 1, 5, 1)]
    """

    def __init__(self, view: View, schema: pa.Schema, types: Sequence[str], max_rows: int) -> None:
        self._view, self._schema = view, schema
        self._types = ["BIGINT", "BIGINT", *types]
        self._max_rows = max_rows
        self._ready = threading.Condition()
        self._held: deque[Held] = deque()
        self._rows = 0
        self._is_closed = False
        self._error: DeltamarkError | None = None
        """The error that readers get when they have read all held changes."""
        self._wakers: list[Callable[[], object]] = []

    @property
    def view(self) -> str:
        """The name of the view."""
        return self._view.name

    def follows(self, views: Iterable[View]) -> bool:
        """Return whether its view is one of these, and no other one of the same name."""
        return any(each is self._view for each in views)

    def __repr__(self) -> str:
        with self._ready:
            state = f"{len(self._held)} batches of {self._rows:,} changes wait"
            if self._is_closed:
                state += ", closed"
        return f"Subscription to {self.view}: {state}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the subscription, and forget changes that were not read."""
        with self._ready:
            self._forget()
        self.end()

    def read(self, timeout: float | None = None) -> Changes | None:
        """Return the changes of the next commit that changes the view; wait for them.

        timeout: the seconds to wait; 0 returns those that are there already. None is returned if there are none in
        this time, or if the subscription is closed.
        """
        end = None if timeout is None else monotonic() + timeout
        while True:
            with self._ready:
                if not self._ready.wait_for(self._has_news, None if end is None else max(0, end - monotonic())):
                    return None
                if (held := self._next()) is None:
                    return None
            if (found := self._changes(held)) is not None:
                return found

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Changes:
        found = self.read()
        if found is None:
            raise StopIteration
        return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Changes:
        while True:
            with self._ready:
                has_news = self._has_news()
                held = self._next() if has_news else None
                waiting = None if has_news else self._waker()
            if waiting is not None:
                await waiting
            elif held is None:
                raise StopAsyncIteration
            elif (found := self._changes(held)) is not None:
                return found

    def _waker(self) -> asyncio.Future[None]:
        """Return a future of the running loop that the next commit completes."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        self._wakers.append(lambda: loop.call_soon_threadsafe(wake))
        return future

    def _has_news(self) -> bool:
        return bool(self._held) or self._is_closed

    def _next(self) -> Held | None:
        """Return the next changes; None after the last ones, or the error that has ended the subscription."""
        if self._held:
            held = self._held.popleft()
            self._rows -= held.rows
            return held
        if self._error is not None:
            raise self._error
        return None

    def _changes(self, held: Held) -> Changes | None:
        """Convert changes to values; return None if a commit has changed nothing after all."""
        if isinstance(held.changes, pa.Table):
            values, diffs = held.changes, np.ones(held.rows, np.int64)
        else:
            values, diffs = net_values(self._view.query.collection.schema, held.changes)
            if not len(diffs):
                return None
        columns = [_cast(values[field.name], field.type) for field in self._schema]
        times = np.full(len(diffs), held.time)
        table = pa.table([pa.array(times), pa.array(diffs), *columns], names=[TIME, DIFF, *self._schema.names])
        return Changes(held.time, table, self._types)

    def add(self, held: Held) -> None:
        """Add changes for the reader; end the subscription if it has too many that were not read."""
        with self._ready:
            if self._is_closed:
                return
            if self._held and self._rows + held.rows > self._max_rows:
                error = DeltamarkError(
                    "a subscription whose reader is too slow", f"{self.view}: {self._rows + held.rows} changes wait",
                    "subscribe again with snapshot=True, or with a larger max_rows",
                )  # fmt: skip
                self._forget()
            else:
                error = None
                self._held.append(held)
                self._rows += held.rows
                self._wake()
        if error is not None:
            self.end(error)

    def end(self, error: DeltamarkError | None = None) -> None:
        """Add no more changes. error: what readers get after the changes that wait; without one, they just end."""
        with self._ready:
            if not self._is_closed:
                self._is_closed, self._error = True, error
            self._wake()

    def _forget(self) -> None:
        self._held.clear()
        self._rows = 0

    def _wake(self) -> None:
        self._ready.notify_all()
        wakers, self._wakers = self._wakers, []
        for each in wakers:
            with suppress(RuntimeError):  # the loop is closed
                each()

    def call(self, callback: Callable[[Changes], object]) -> None:
        """Call a function with each batch of changes, in a thread of its own."""
        threading.Thread(target=self._call, args=[callback], name=f"subscription to {self.view}", daemon=True).start()

    def _call(self, callback: Callable[[Changes], object]) -> None:
        with self:
            for each in self:
                callback(each)


class Subscriptions:
    """The subscriptions of a database that are in use."""

    def __init__(self) -> None:
        self._open: WeakSet[Subscription] = WeakSet()

    def add(self, subscription: Subscription) -> None:
        self._open.add(subscription)

    def publish(self, time: int, changes: Mapping[str, Batch]) -> None:
        """Hand out the changes of a commit, by the names of views."""
        for each in list(self._open):
            found = changes.get(each.view)
            if found is not None and len(found.time):
                each.add(Held(time, found))

    def keep(self, views: Iterable[View]) -> None:
        """End the subscriptions to all views but those that exist."""
        existing = list(views)
        for each in list(self._open):
            if not each.follows(existing):
                each.end(DeltamarkError("a subscription to a view that was dropped", each.view, "subscribe anew"))
                self._open.discard(each)

    def end(self, error: DeltamarkError | None = None) -> None:
        """End all subscriptions."""
        for each in list(self._open):
            each.end(error)


def _cast(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_interval(type_):
        microseconds = values.cast(pa.int64()).to_pylist()
        return pa.array([None if each is None else (0, 0, 1000 * each) for each in microseconds], type_)
    return values.cast(type_)
