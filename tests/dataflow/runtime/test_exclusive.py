"""Laws of exclusive use: calls of threads do not overlap, and nothing reaches an object once it is closed."""

from __future__ import annotations

import random
import signal
import threading
import time

import pytest
from support.engines.elsewhere import in_child, in_thread

from deltamark.dataflow.runtime.exclusive import Exclusive
from deltamark.errors import DeltamarkError


class Resource:
    """A resource that notices calls that overlap."""

    def __init__(self):
        self.calls = self.most = self.total = self.closed = 0

    def add(self, number):
        self.calls += 1
        self.most = max(self.most, self.calls)
        before = self.total
        time.sleep(0.0005)
        self.total = before + number
        self.calls -= 1
        return self.total

    def items(self):
        for number in range(3):
            yield self.add(number)

    def close(self):
        self.closed += 1


def test_calls_of_threads_run_one_after_another():
    resource = Resource()
    exclusive = Exclusive("thing", resource)
    threads = [
        threading.Thread(target=lambda: [exclusive.use(lambda held: held.add(1)) for _ in range(20)]) for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (resource.total, resource.most) == (80, 1)


def test_a_closed_object_is_out_of_reach():
    resource = Resource()
    exclusive = Exclusive("thing", resource)
    items = exclusive.each(lambda held: held.items())
    assert next(items) == 0
    exclusive.close()
    exclusive.close()
    assert (resource.closed, exclusive.is_closed) == (1, True)
    for use in (
        lambda: exclusive.use(lambda held: held.add(1)),
        lambda: next(items),
        lambda: in_thread_raised(exclusive),
    ):
        with pytest.raises(DeltamarkError, match="the thing is closed: its memory was released; open another one"):
            use()
    assert resource.total == 0


def in_thread_raised(exclusive):
    raise in_thread(lambda: exclusive.use(lambda held: held.add(1)))


def test_close_waits_for_the_call_of_another_thread():
    resource, begun, go_on = Resource(), threading.Event(), threading.Event()
    exclusive = Exclusive("thing", resource)

    def call(held):
        begun.set()
        go_on.wait(20)
        return held.closed

    found = []
    caller = threading.Thread(target=lambda: found.append(exclusive.use(call)))
    closer = threading.Thread(target=exclusive.close)
    caller.start()
    begun.wait(20)
    closer.start()
    go_on.set()
    caller.join()
    closer.join()
    assert (found, resource.closed) == ([0], 1)


@pytest.mark.parametrize("within", ["use", "close", "each"])
def test_a_call_within_a_call_of_the_same_thread_is_refused(within):
    resource = Resource()
    exclusive = Exclusive("thing", resource)
    calls = {
        "use": lambda: exclusive.use(lambda held: held.add(1)), "close": exclusive.close,
        "each": lambda: next(exclusive.each(lambda held: held.items())),
    }  # fmt: skip
    with pytest.raises(DeltamarkError, match=r"a call during another call of the thing: .*; let that call end first"):
        exclusive.use(lambda _: calls[within]())
    assert exclusive.use(lambda held: held.add(1)) == 1, "the outer call has ended"


def test_an_interrupted_close_can_be_called_again():
    class Interrupted(Resource):
        def close(self):
            super().close()
            if self.closed == 1:
                raise KeyboardInterrupt

    resource = Interrupted()
    exclusive = Exclusive("thing", resource)
    with pytest.raises(KeyboardInterrupt):
        exclusive.close()
    with pytest.raises(DeltamarkError, match="the thing is closed"):
        exclusive.use(lambda held: held.add(1))
    exclusive.close()
    exclusive.close()
    assert resource.closed == 2


CALLS = 1000
"""Calls that take longer than the longest timer."""


def test_an_interrupt_at_any_moment_leaves_the_object_free():
    """A timer interrupts the calls at random moments. Another thread can call afterwards, and so can this one."""

    class Interrupt(BaseException):
        pass

    def interrupt(*_):
        raise Interrupt

    exclusive, rng, interrupts = Exclusive("thing", Resource()), random.Random(), 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 100e-6))
                while True:
                    for _ in range(CALLS):
                        exclusive.use(id)
                    signal.pthread_sigmask(signal.SIG_BLOCK, [])  # runs a handler that CPython has postponed
            except Interrupt:
                interrupts += 1
            assert isinstance(exclusive.use(id), int)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert isinstance(in_thread(lambda: exclusive.use(id)), int)
    assert interrupts == 300


def test_a_forked_process_has_the_object_to_itself():
    exclusive = Exclusive("thing", Resource())
    exclusive.use(lambda held: held.add(5))
    assert in_child(lambda: exclusive.use(lambda held: held.add(1))) == "6"
    assert exclusive.use(lambda held: held.add(2)) == 7


def test_a_process_that_was_forked_during_a_call_of_another_thread_refuses_calls():
    """The thread that has the lock does not exist in the forked process."""
    begun, go_on = threading.Event(), threading.Event()
    exclusive = Exclusive("thing", Resource())

    def call(_):
        begun.set()
        go_on.wait(20)

    caller = threading.Thread(target=lambda: exclusive.use(call))
    caller.start()
    begun.wait(20)
    said = [in_child(lambda: exclusive.use(lambda held: held.add(1))), in_child(exclusive.close)]
    go_on.set()
    caller.join()
    assert all(each.startswith("DeltamarkError: a call during another call of the thing") for each in said), said
    assert exclusive.use(lambda held: held.add(1)) == 1
