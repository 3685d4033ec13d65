"""Exclusive use of an object over native memory: one call at a time reaches it, and none after it is closed.

Kernels trust the addresses that they are given. An address that outlives its memory belongs to nothing, or to another
dataflow; two calls at once leave operators at different times. So a public handle has no reference to native memory
but through `Exclusive.use`, and what it returns contains no address.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet

from deltamark.errors import DeltamarkError


class Closable(Protocol):
    def close(self) -> None: ...


HeldT = TypeVar("HeldT", bound=Closable)
ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")


class Exclusive(Generic[HeldT]):
    """The only reference of a handle to an object over native memory. kind: names the object in errors.

    Calls of several threads run one after another, in any order.
    """

    def __init__(self, kind: str, held: HeldT) -> None:
        self._kind = kind
        self._held: HeldT | None = held
        self._lock = threading.RLock()
        self._is_used = self.is_closed = False
        _ALL.add(self)

    def use(self, do: Callable[[HeldT], ResultT]) -> ResultT:
        """Call a function with the object. Neither the object nor an address may leave the function.

        It is no context manager: Ctrl-C between the entry of one and its block would leave the lock taken.
        """
        with self._lock:
            self._refuse_within()
            if self._held is None or self.is_closed:
                raise DeltamarkError(f"the {self._kind} is closed", "its memory was released", "open another one")
            try:
                self._is_used = True
                return do(self._held)
            finally:
                self._is_used = False

    def each(self, begin: Callable[[HeldT], Iterator[ItemT]]) -> Iterator[ItemT]:
        """Yield the items of an iterator over the object. Each step is a call of its own, as in `use`."""
        steps, end = self.use(begin), object()
        while (item := self.use(lambda _: next(steps, end))) is not end:
            yield item  # type: ignore[misc]  # it is not the end

    def close(self) -> None:
        """Close the object. Closing again does nothing, unless the first call was interrupted."""
        with self._lock:
            self._refuse_within()
            if self._held is None:
                return
            try:
                self._is_used = self.is_closed = True
                self._held.close()
                self._held = None
            finally:
                self._is_used = False

    def _refuse_within(self) -> None:
        """Refuse a call of the thread that is within another one; other threads wait for the lock."""
        if self._is_used:
            actual = "by an iterator, a finalizer or a signal handler, or after a fork by another thread"
            raise DeltamarkError(f"a call during another call of the {self._kind}", actual, "let that call end first")

    def lock_anew(self) -> None:
        """Replace the lock in a forked process: the thread that has it does not exist there.

        Then the object stays in use, because the call of that thread never ends.
        """
        self._lock = threading.RLock()


_ALL: WeakSet[Exclusive[Any]] = WeakSet()


def _lock_anew() -> None:
    for each in _ALL:
        each.lock_anew()


os.register_at_fork(after_in_child=_lock_anew)
