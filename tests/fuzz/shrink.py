"""The search for smaller failing examples, which leaves out some of their choices and lowers others.

An example that can name simpler ones itself is made smaller by these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from support.random_plans.choices import Recorded, Replayed, Seeded

from fuzz.children import Board, Child, work
from fuzz.example import Example, Simplifiable
from fuzz.kinds import KINDS, Failure, run_drawn
from fuzz.queries.example import Queries

MOST_SECONDS = 60.0
"""The CPU time of the search for a smaller example. Not measured."""

CHUNKS = (8, 4, 2, 1)

INNER_SHARE = 0.4
"""The part of the memory of the search that one attempt may take in a process of its own."""

Send = Callable[[object], None]
Draw = Callable[[], Example]
Attempt = Callable[[Failure, Draw], Failure | None]


@dataclass(frozen=True)
class Numbered:
    """The numbers that an example is drawn from, their parts, and the text of the example."""

    numbers: Sequence[int]
    parts: Sequence[tuple[int, int]]
    written: str
    constructs: frozenset[str] = field(default=frozenset(), kw_only=True)
    """The constructs of a text of SQL."""

    @property
    def size(self) -> tuple[int, Sequence[int]]:
        return len(self.numbers), self.numbers


@dataclass(frozen=True)
class Candidate(Numbered):
    """An example that may fail. draw: returns it, or raises the error of its drawing."""

    draw: Draw


@dataclass(frozen=True)
class Smaller(Numbered):
    """A failing example and its failure."""

    failure: Failure
    attempts: int = 0


def shrinker(failure: Failure) -> Child:
    """Start a child that sends ever smaller examples with the same failure; none if the example does not fail alone."""

    def shrink(board: Board, send: Send) -> None:
        def here(failure: Failure, draw: Draw) -> Failure | None:
            board.begin(failure.kind, failure.seed)
            return run_drawn(failure.kind, failure.seed, draw)

        attempt = apart if failure.ends_process else here
        if (example := _simplifiable(failure)) is not None:
            make_simpler(failure, example, attempt, send)
        else:
            make_smaller(failure, attempt, send)

    return Child(shrink)


def _simplifiable(failure: Failure) -> Simplifiable | None:
    if isinstance(failure.example, Simplifiable):
        return failure.example
    try:
        example = KINDS[failure.kind].draw(Seeded(failure.seed))
    except Exception:  # noqa: BLE001 (the failure may be that it cannot be drawn)
        return None
    return example if isinstance(example, Simplifiable) else None


def apart(failure: Failure, draw: Draw) -> Failure | None:
    """Run an example in a process of its own, which it may end."""

    def task(board: Board, send: Send) -> None:
        board.begin(failure.kind, failure.seed)
        send(run_drawn(failure.kind, failure.seed, draw))

    child = Child(task)
    try:
        while True:
            child.wait(0.02)
            for found in child.found():
                return found
            if (problem := child.problem(INNER_SHARE)) is not None:
                return Failure(failure.kind, failure.seed, problem, ends_process=True)
    finally:
        child.close()


def make_smaller(failure: Failure, attempt: Attempt, send: Send) -> None:
    """Try examples drawn from fewer and smaller numbers; send each that is the smallest so far."""
    first = _drawn(failure, Seeded(failure.seed))
    best = None if first is None else _tried(failure, attempt, first)
    if best is None:
        return
    send(best)
    tried: set[tuple[int, ...]] = set()
    began, before = seconds_used(), None
    while best is not before:
        before = best
        for change in (_zeroed_part, _without_part, _less, *map(_without_chunk, CHUNKS)):
            at = 0
            while (numbers := change(best, at)) is not None and seconds_used() - began < MOST_SECONDS:
                at += 1
                if tuple(numbers) in tried:
                    continue
                tried.add(tuple(numbers))
                candidate = _drawn(failure, Replayed(numbers))
                if candidate is None or candidate.size >= best.size:
                    continue
                if (found := _tried(failure, attempt, candidate)) is not None:
                    best, at = replace(found, attempts=len(tried)), at - 1
                    send(best)


def make_simpler(failure: Failure, example: Simplifiable, attempt: Attempt, send: Send) -> None:
    """Try the simpler examples that an example names, again and again; send each that has the same failure."""
    attempts, began, at, before = 0, seconds_used(), 0, None
    found = attempt(failure, lambda: example)
    if found is None or found.what != failure.what:
        return
    send(Smaller((), (), str(example), found, constructs=constructs_of(example)))
    while example is not before:
        before, at = example, 0
        while seconds_used() - began < MOST_SECONDS:
            candidate = next(islice(example.simpler(), at, None), None)
            if candidate is None:
                break
            attempts += 1
            found = attempt(failure, lambda: candidate)  # noqa: B023 (it is called at once)
            if found is None or found.what != failure.what:
                at += 1
                continue
            example = candidate
            send(Smaller((), (), str(example), found, attempts, constructs=constructs_of(example)))


def constructs_of(example: Example | None) -> frozenset[str]:
    """Return the constructs of the text of an example, if it has one."""
    return frozenset(example.query.constructs()) if isinstance(example, Queries) else frozenset()


def seconds_used() -> float:
    """Return the CPU time of this process and of its children."""
    return work(os.getpid())


def _drawn(failure: Failure, choices: Recorded) -> Candidate | None:
    """Draw an example; if it cannot be drawn, this must be the failure."""
    try:
        example = KINDS[failure.kind].draw(choices)
        written, draw = str(example), partial(_same, example)
    except Exception as error:  # noqa: BLE001 (which is no example, unless this is what is looked for)
        if type(error).__name__ != failure.what:
            return None
        written, draw = "an example that could not be drawn", partial(_raised, error)
    numbers = list(choices.numbers)
    while numbers and numbers[-1] == 0:
        numbers.pop()
    parts = sorted({part for part in choices.parts if part[0] < part[1]}, key=lambda part: part[0] - part[1])
    return Candidate(tuple(numbers), parts, written, draw)


def _same(example: Example) -> Example:
    return example


def _raised(error: Exception) -> Example:
    raise error


def _tried(failure: Failure, attempt: Attempt, candidate: Candidate) -> Smaller | None:
    """Run an example; return it if it has the same failure."""
    found = attempt(failure, candidate.draw)
    if found is None or found.what != failure.what:
        return None
    return Smaller(candidate.numbers, candidate.parts, candidate.written, found)


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
