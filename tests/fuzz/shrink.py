"""The search for smaller failing examples, which leaves out some of their choices and lowers others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from support.random_plans.choices import Recorded, Replayed, Seeded

from fuzz.children import Board, Child
from fuzz.kinds import KINDS, Failure, run

MOST_SECONDS = 60.0
"""The CPU time of the search for a smaller example. Not measured."""

CHUNKS = (8, 4, 2, 1)

Send = Callable[[object], None]
Attempt = Callable[[Failure, Recorded], Failure | None]


@dataclass(frozen=True)
class Smaller:
    """A failing example: its numbers, their parts, its text and its failure."""

    numbers: Sequence[int]
    parts: Sequence[tuple[int, int]]
    written: str
    failure: Failure
    attempts: int = 0

    @property
    def size(self) -> tuple[int, Sequence[int]]:
        return len(self.numbers), self.numbers


def shrinker(failure: Failure) -> Child:
    """Start a child that sends ever smaller examples with the same failure; none if the example does not fail alone."""

    def shrink(board: Board, send: Send) -> None:
        def here(failure: Failure, choices: Recorded) -> Failure | None:
            board.begin(failure.kind, failure.seed)
            return run(failure.kind, failure.seed, choices)

        make_smaller(failure, apart if failure.ends_process else here, send)

    return Child(shrink)


def apart(failure: Failure, choices: Recorded) -> Failure | None:
    """Run an example in a process of its own, which it may end."""

    def task(board: Board, send: Send) -> None:
        board.begin(failure.kind, failure.seed)
        send(run(failure.kind, failure.seed, choices))

    child = Child(task)
    try:
        while True:
            child.wait(0.05)
            for found in child.found():
                return found
            if (problem := child.problem()) is not None:
                return Failure(failure.kind, failure.seed, problem, ends_process=True)
    finally:
        child.close()


def make_smaller(failure: Failure, attempt: Attempt, send: Send) -> None:
    """Try examples drawn from fewer and smaller numbers; send each that is the smallest so far."""
    best, before = _tried(failure, attempt, Seeded(failure.seed)), None
    if best is None:
        return
    send(best)
    tried: set[tuple[int, ...]] = set()
    began = seconds_used()
    while best is not before:
        before = best
        for candidate in (_zeroed_part, _without_part, _less, *map(_without_chunk, CHUNKS)):
            at = 0
            while (numbers := candidate(best, at)) is not None and seconds_used() - began < MOST_SECONDS:
                at += 1
                if tuple(numbers) in tried:
                    continue
                tried.add(tuple(numbers))
                found = _tried(failure, attempt, Replayed(numbers))
                if found is not None and found.size < best.size:
                    best, at = replace(found, attempts=len(tried)), at - 1
                    send(best)


def seconds_used() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _tried(failure: Failure, attempt: Attempt, choices: Recorded) -> Smaller | None:
    """Draw an example and run it; return it if it has the same failure."""
    written = "an example that could not be drawn"
    try:
        written = str(KINDS[failure.kind].draw(choices))
    except Exception as error:  # noqa: BLE001 (which is no example, unless this is what is looked for)
        if type(error).__name__ != failure.what:
            return None
    found = attempt(failure, Replayed(choices.numbers))
    if found is None or found.what != failure.what:
        return None
    numbers = list(choices.numbers)
    while numbers and numbers[-1] == 0:
        numbers.pop()
    parts = sorted({part for part in choices.parts if part[0] < part[1]}, key=lambda part: part[0] - part[1])
    return Smaller(tuple(numbers), parts, written, found)


def _without_part(best: Smaller, at: int) -> Sequence[int] | None:
    if at >= len(best.parts):
        return None
    start, end = best.parts[at]
    return [*best.numbers[:start], *best.numbers[end:]]


def _zeroed_part(best: Smaller, at: int) -> Sequence[int] | None:
    if at >= len(best.parts):
        return None
    start, end = best.parts[at]
    return [0 if start <= place < end else number for place, number in enumerate(best.numbers)]


def _less(best: Smaller, at: int) -> Sequence[int] | None:
    """Replace a number by zero, by its half, or by one less."""
    place, how = divmod(at, 3)
    if place >= len(best.numbers):
        return None
    number = best.numbers[place]
    return [*best.numbers[:place], (0, number // 2, max(number - 1, 0))[how], *best.numbers[place + 1 :]]


def _without_chunk(length: int) -> Callable[[Smaller, int], Sequence[int] | None]:
    def without(best: Smaller, at: int) -> Sequence[int] | None:
        start = len(best.numbers) - length - at
        return None if start < 0 else [*best.numbers[:start], *best.numbers[start + length :]]

    return without
