"""The exploration of examples in child processes, and the report of their failures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from deltamark.harness.engines.external import named
from fuzz.children import LATE, Child, explorer
from fuzz.kinds import KINDS, Failure
from fuzz.shrink import Smaller, constructs_of, shrinker
from fuzz.tally import written

POLL_SECONDS = 0.1
REPORT_SECONDS, REPORT_SHARE = 1.0, 0.02
"""The least interval between two reports of progress, in seconds and as a share of the elapsed time."""
MAX_REPORTED, MAX_SHRUNK = 10, 2
"""The most failures of one kind with the same message that are reported and shrunk."""
MAX_WAITING = 6
"""The most failures of another engine that wait to be shrunk."""


@dataclass
class FuzzSettings:
    seed: int
    examples: int
    seconds: float
    kinds: list[str]
    processes: int
    engine: str = ""
    """The engine of others that runs the queries; empty: ours."""


@dataclass
class Explored:
    """The counts and the failures so far."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def summary(self, counts: Counter[str]) -> str:
        seconds = time.monotonic() - self.began
        failed = Counter(each.kind for each in self.failures)
        kinds = [f"{name} {counts[name]:,}" + (f" ({failed[name]} failed)" if failed[name] else "") for name in KINDS]
        whole = f"{sum(counts.values()):,} examples in {seconds:.0f} s, {sum(counts.values()) / seconds:.0f} a second"
        return f"{whole}: {', '.join(each for each, name in zip(kinds, KINDS, strict=True) if counts[name])}"

    def failed(self) -> str:
        """Return the number of failures with each description."""
        found = Counter(f"{each.kind}: {each.what}" for each in self.failures)
        return "\n".join(f"  failed {times} times: {words}" for words, times in found.most_common())


def explore(settings: FuzzSettings, say: Callable[[str], None]) -> Explored:
    """Run examples up to their number, the end of the time or an interrupt; report the failures."""
    watch = Watch(settings, say)
    try:
        watch.explore()
        watch.shrink()
    except KeyboardInterrupt:
        say("interrupted")
    finally:
        watch.close()
    say("\n".join([watch.summary(), *filter(None, [written(watch.found.tally), watch.found.failed()])]))
    return watch.found


class Watch:
    """The children that explore examples, and those that make failures smaller."""

    def __init__(self, settings: FuzzSettings, say: Callable[[str], None]) -> None:
        self.found = Explored()
        self._settings, self._say = settings, say
        count = min(settings.processes, settings.examples)
        self._explorers = [self._explorer(settings.seed + at) for at in range(count)]
        self._shrinkers: list[Shrinker] = []
        self._waiting: list[Failure] = []
        self._firsts: list[Failure] = []
        """The first failures of another engine with a description, which are shrunk before others."""
        self._known: list[tuple[str, frozenset[str]]] = []
        """The descriptions and the constructs of the shrunk failures of another engine."""

    def explore(self) -> None:
        began = reported = time.monotonic()
        while self._explorers and time.monotonic() - began < self._settings.seconds:
            for child in list(self._explorers):
                child.wait(POLL_SECONDS / len(self._explorers))
                self._listen(child)
            self._shrink_on()
            if time.monotonic() - reported > max(REPORT_SECONDS, REPORT_SHARE * (reported - began)):
                reported = time.monotonic()
                self._say("\n".join(filter(None, [self.summary(), self._outcomes()])))
        self._end_explorers()

    def shrink(self) -> None:
        """Wait until the search for smaller failures ends."""
        while self._shrinkers or self._waiting or self._firsts:
            time.sleep(POLL_SECONDS)
            self._shrink_on()

    def _outcomes(self) -> str:
        """Return a line with the outcomes of the texts for another engine."""
        if not self._settings.engine:
            return ""
        name = named.greeting(self._settings.engine).name
        return written(Counter({each: count for each, count in self.found.tally.items() if each.startswith(name)}))

    def summary(self) -> str:
        counts = sum((Counter(child.board.counts()) for child in self._explorers), self.found.counts)
        return self.found.summary(counts)

    def close(self) -> None:
        self._end_explorers()
        for each in self._shrinkers:
            each.child.close()
            self._say(each.report())

    def _explorer(self, first: int) -> Child:
        settings = self._settings
        return explorer(first, settings.seed + settings.examples, settings.processes, settings.kinds)

    def _listen(self, child: Child) -> None:
        """Record the failures of a child, and its end."""
        ended, problem = child.ended(), child.problem()
        self._listen_to(child)
        if problem is None and not ended:
            return
        self._explorers.remove(child)
        self.found.counts += Counter(child.board.counts())
        child.close()
        if problem is not None:
            kind, seed = child.board.kind, child.board.seed
            self.found.counts[kind] += 1
            self._explorers.append(self._explorer(seed + self._settings.processes))
            if problem.startswith(LATE) and not KINDS[kind].late_fails:
                self.found.tally[f"unfit: {problem}"] += 1
            else:
                self._fail(Failure(kind, seed, problem, ends_process=True))

    def _listen_to(self, child: Child) -> None:
        for found in child.found():
            if isinstance(found, Counter):
                self.found.tally += found
            else:
                self._fail(found)

    def _end_explorers(self) -> None:
        for child in self._explorers:
            self.found.counts += Counter(child.board.counts())
            self._listen_to(child)
            child.close()
        self._explorers = []

    def _fail(self, failure: Failure) -> None:
        self.found.failures.append(failure)
        alike = sum((each.kind, each.what) == (failure.kind, failure.what) for each in self.found.failures)
        if alike <= MAX_REPORTED:
            self._say(f"failed: {failure.kind}, seed {failure.seed}: {failure.what}; again: {failure.command}")
        if alike == MAX_REPORTED:
            self._say("further ones like it are only counted")
        if failure.example is not None:
            if alike == 1:
                self._firsts.append(failure)
            elif len(self._waiting) < MAX_WAITING and not self._is_known(failure):
                self._waiting.append(failure)
        elif alike <= MAX_SHRUNK:
            self._waiting.append(failure)

    def _is_known(self, failure: Failure) -> bool:
        """Return whether a text has all constructs of a shrunk one that failed in the same way."""
        own = constructs_of(failure.example)
        return any(what == failure.what and known <= own for what, known in self._known)

    def _shrink_on(self) -> None:
        for each in list(self._shrinkers):
            if each.is_done():
                self._shrinkers.remove(each)
                self._report(each)
        while (waiting := self._firsts or self._waiting) and len(self._shrinkers) < self._settings.processes:
            failure = waiting.pop(0)
            if self._is_known(failure):
                continue
            self._shrinkers.append(Shrinker(failure, shrinker(failure)))

    def _report(self, shrinker: Shrinker) -> None:
        """Report a shrunk failure, of another engine only if no earlier one was like it."""
        best, what = shrinker.best, shrinker.failure.what
        if shrinker.failure.example is not None and best is not None:
            if any(what == other and known <= best.constructs for other, known in self._known):
                return
            self._known.append((what, best.constructs))
        self._say(shrinker.report())


@dataclass
class Shrinker:
    """A child that makes a failure smaller, and the smallest so far."""

    failure: Failure
    child: Child
    best: Smaller | None = None
    problem: str = ""
    """The reason why the search ended early."""

    def is_done(self) -> bool:
        ended, problem = self.child.ended(), self.child.problem()
        for best in self.child.found():
            self.best = best
        if problem is None and not ended:
            return False
        self.problem = f" ({problem})" if problem else ""
        self.child.close()
        return True

    def report(self) -> str:
        """Return the text of a failure, of its smallest example if it fails alone."""
        failure, best = self.failure, self.best
        head, end = f"{failure.kind}, seed {failure.seed}, ", self.problem
        if best is None:
            return f"{head}does not fail alone{end}; it failed by {failure.what}: {failure.details}"
        head = f"{head}made smaller by {best.attempts} attempts{end}"
        return f"{head}:\n{best.written}\n{failure.what}: {best.failure.details}\n"
