"""The suite of recovery: an engine is killed at random moments of a stream, and continues from its last snapshot.

A program is killed while it applies a batch, between two batches, and while it writes a snapshot. The harness starts it
again, lets it restore the last complete snapshot, and feeds the batches after that again. An undisturbed run before has
the right changes of each batch, and DuckDB the right answers.

The harness is a consumer that takes the changes of a batch after the batch was applied. When an engine says up to which
time it has restored the rows, the consumer drops the changes after this time, since they come again. So every change
has come exactly once if the changes are those of the undisturbed run. A change that came twice or never is found in the
logical time to which it belongs.

An engine on Spark reads its input by itself, and has a checkpoint after every batch. `harness/strikes/spark.py` kills
its processes; the digest of its stream must be that of one worker.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Timer

import pyarrow as pa

from deltamark.dataflow.answer import WEIGHT, stored_table
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import Schema
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import last_time
from deltamark.datagen.scratch import scratch
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError, row_text, unordered_difference
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.engines.answers import decoded
from deltamark.harness.engines.base import AnswerEngine, RefusedError, Row, StreamEngine, Value, first_line, short_name
from deltamark.harness.engines.external.engine import ExternalEngine, Restored
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.engines.registry import capabilities, engine_class
from deltamark.harness.measure.client import CellReply
from deltamark.harness.results.record import Figures
from deltamark.harness.strikes.spark import VICTIMS, SparkOutcome, StrikePlan, killing, survive
from deltamark.harness.system.clock import WallClock, timed
from deltamark.harness.tables.lives import OUTCOMES, Moment, Outcome

BATCHES, SNAPSHOT_EVERY = 24, 4
"""The batches of a stream at most, and those from one snapshot to the next. Neither number is tuned."""

DIGITS = 10
"""The digits by which doubles of changes are compared: the last digits of a sum depend on the order of its terms."""

CLOCK = WallClock()

Changes = Mapping[int, Mapping[Row, int]]
"""The weights of rows by logical time."""


class LifeError(Exception):
    """A fault of an engine that was killed."""

    def __init__(self, outcome: Outcome, problem: str) -> None:
        super().__init__(problem)
        self.outcome: Outcome = outcome


class Consumer:
    """The changes that an engine has handed over. schema: that of a stream.

    until: the last logical time whose changes it has.
    """

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self.until = -1
        self._weights: dict[int, Counter[Row]] = defaultdict(Counter)

    def add(self, changes: Batch | pa.Table) -> None:
        if isinstance(changes, Batch):
            assert self.schema
            table = stored_table(self.schema, changes)
            columns = [table[name].to_pylist() for name in (WEIGHT, *self.schema.names)]
            rows = zip(changes.time.tolist(), *columns, strict=True)
        else:
            rows = zip(*(column.to_pylist() for column in changes.columns), strict=True)
        for time, diff, *row in rows:
            self._weights[time][tuple(map(_rounded, row))] += diff

    def forget(self, after: int) -> None:
        """Drop the changes after a time."""
        self.until = min(self.until, after)
        for time in [each for each in self._weights if each > after]:
            del self._weights[time]

    @property
    def changes(self) -> dict[int, dict[Row, int]]:
        """The changes by logical time, without weights of 0."""
        found = {time: {row: diff for row, diff in rows.items() if diff} for time, rows in self._weights.items()}
        return {time: rows for time, rows in found.items() if rows}

    def answer(self) -> list[Row]:
        """Return the sum of all changes, in any order."""
        sums: Counter[Row] = Counter()
        for rows in self._weights.values():
            sums.update(rows)
        found = list(sums.elements())
        if self.schema is None:
            return found
        names = self.schema.names
        return decoded(self.schema, [dict(zip(names, row, strict=True)) for row in found])  # type: ignore[arg-type]


def _rounded(value: Value) -> Value:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def compared(mine: Changes, right: Changes) -> tuple[Outcome, str]:
    """Say whether changes have come once, twice, never or with other values; describe the first difference."""
    found: dict[Outcome, str] = {}
    for time in sorted({*mine, *right}):
        ours, theirs = mine.get(time, {}), right.get(time, {})
        more = {row: ours.get(row, 0) - theirs.get(row, 0) for row in {*ours, *theirs}}
        more = {row: diff for row, diff in more.items() if diff}
        if more:
            before = [rows for at, rows in right.items() if at <= time]
            row = min(more, key=str)
            has, due = ours.get(row, 0), theirs.get(row, 0)
            text = f"at time {time} the weight {has:+} instead of {due:+}, of {row_text(row)}"
            found.setdefault(_kind(more, theirs, before), text)
    if not found:
        return "once", ""
    (kind, problem), *others = found.items()
    return ("wrong" if others else kind), problem


def _kind(more: Mapping[Row, int], due: Mapping[Row, int], before: Sequence[Mapping[Row, int]]) -> Outcome:
    """Name the fault of the changes at a time. more: the surplus; due: the right changes; before: all right ones."""
    if more in before:
        return "twice"
    if all(min(due.get(row, 0), 0) <= due.get(row, 0) + diff <= max(due.get(row, 0), 0) for row, diff in more.items()):
        return "never"
    if all(any(rows.get(row) == diff for rows in before) for row, diff in more.items()):
        return "twice"
    return "wrong"


class _Kill:
    """Kills an engine once. at: the moment of the kill, by the clock; None before."""

    def __init__(self, engine: ExternalEngine) -> None:
        self._engine = engine
        self.at: float | None = None

    def __call__(self) -> None:
        if self.at is None:
            self.at = CLOCK.now()
            self._engine.kill()


@dataclass
class Recoveries:
    """The recoveries after the kills of one kind: seconds to the right answer, and the rounds that were fed again."""

    seconds: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)


class Life:
    """A stream from its beginning to its end, through all the processes of an engine. directory: for snapshots."""

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, directory: Path) -> None:
        self._cell, self._dataset, self._work, self._directory = cell, dataset, work, directory
        directory.mkdir()
        self.consumer = Consumer()
        self._snapshot: Path | None = None
        self._snapshots = 0
        self.applied: list[float] = []
        """The seconds of each batch."""
        self.written: list[tuple[float, int]] = []
        """The seconds and the bytes of each snapshot."""
        self.start, self.engine = timed(self._opened)
        self._has_process = True

    def _opened(self, begin: Restored | None = None) -> ExternalEngine:
        kind = engine_class(self._cell.engine)
        assert issubclass(kind, ExternalEngine)
        engine = kind(self._cell, self._dataset, self._work, self.consumer.add, begin=begin)
        if isinstance(engine, StreamEngine):
            self.consumer.schema = engine.schema
        return engine

    @property
    def _round(self) -> int:
        """The rounds that were handed over."""
        return self.engine.feed.round

    @property
    def time(self) -> int:
        """The last logical time that was handed over."""
        return last_time(self._round, self._cell.logical)

    def steps(self) -> Iterator[int]:
        """Hand over one batch after another; yield the number of each that has rows."""
        step = 0
        while not self.engine.feed.done:
            if self._take():
                step += 1
                yield step

    def _take(self) -> bool:
        return self.engine.take(self._cell.physical) > 0

    def apply(self) -> None:
        """Let the engine apply the batch, and take its changes."""
        seconds, _ = timed(self.engine.apply)
        self.engine.finish()
        self.applied.append(seconds)
        self.consumer.until = self.time

    def save(self) -> None:
        """Let the engine write a snapshot, which replaces the one before."""
        self._snapshots += 1
        target = self._directory / str(self._snapshots)
        target.mkdir()
        try:
            self.written.append(timed(lambda: self.engine.take_snapshot(target)))
        except DeltamarkError as error:
            raise LifeError("gone", first_line(error)) from error
        if self._snapshot is not None:
            shutil.rmtree(self._snapshot)
        self._snapshot = target

    def killed(self, work: Callable[[], None], delay: float) -> float:
        """Kill the engine some seconds after the beginning of its work, or at its end; return the moment."""
        kill = _Kill(self.engine)
        timer = Timer(delay, kill)
        timer.start()
        try:
            work()
        except (DeltamarkError, LifeError):
            if kill.at is None:
                raise
        finally:
            timer.cancel()
            timer.join()
            kill()
        assert kill.at is not None
        return kill.at

    def recover(self, killed_at: float, into: Recoveries) -> None:
        """Start the engine again, and feed the batches after its snapshot up to the last that was handed over."""
        handed, size = self._round, self._cell.logical * self._cell.physical
        self.close()
        self.engine, self._has_process = self._restored(), True
        if self._round % size and not self.engine.feed.done:
            raise LifeError("wrong", f"it restored {self._round} rounds, and a batch has {size}")
        self.consumer.forget(self.time)
        again = handed - self._round
        while self._round < handed:
            if self._take():
                self.apply()
        into.seconds.append(CLOCK.now() - killed_at)
        into.rounds.append(again)

    def _restored(self) -> ExternalEngine:
        if self._snapshot is None:
            return self._opened()
        try:
            return self._opened(Restored(self._snapshot, self.consumer.until))
        except DeltamarkError as error:
            raise LifeError("gone", first_line(error)) from error

    def wrong(self, oracle: Oracle) -> str:
        """Compare the present answer with DuckDB's; describe the first difference."""
        oracle.at(self.time)
        mine = self.engine.answer() if isinstance(self.engine, AnswerEngine) else self.consumer.answer()
        return unordered_difference(mine, oracle.answer(self._cell.sql), capabilities(self._cell.engine).tolerance)

    def close(self) -> None:
        """End the process of the engine, if it has one."""
        if self._has_process:
            self._has_process = False
            self.engine.discard()


def measure(cell: Cell, data: Path, runs: int) -> Iterator[CellReply]:
    """Kill an engine `runs` times at each kind of moment; yield a row for each kind."""
    able, dataset = capabilities(cell.engine), Dataset.open(data)
    work = workload(dataset, cell.workload)
    cell = cell.but(physical=-(-work.rounds // (cell.logical * BATCHES)))
    if able.resumes:
        return _on_spark(cell, dataset, runs)
    if not able.snapshots:
        raise RefusedError(f"{short_name(cell.engine)} has no recovery", "it claims no snapshots", "leave it out")
    return _of_program(cell, dataset, work, runs)


def row_of(cell: Cell, moment: Moment) -> str:
    """Return the name of a row."""
    return f"{cell.query} {cell.workload} {moment} {short_name(cell.engine)}"


def _of_program(cell: Cell, dataset: Dataset, work: Workload, runs: int) -> Iterator[CellReply]:
    with scratch() as directory, closing(Oracle(work, sql_inputs(cell), cell.logical)) as oracle:
        with closing(Life(cell, dataset, work, directory / "undisturbed")) as undisturbed:
            try:
                steps = _run(undisturbed)
            except LifeError as error:
                figures, row = _graded(error.outcome), row_of(cell, "snapshot")
                yield CellReply(row=row, figures=figures, note=_one_line(error), verified="oracle")
                return
            if wrong := undisturbed.wrong(oracle):
                raise WrongAnswerError("a wrong answer without a kill", f"{cell}\n{wrong}", cell.command("verify"))
        oracle.restart(cell.logical)
        with closing(Life(cell, dataset, work, directory / "killed")) as life:
            chance = Random(str(cell))  # noqa: S311 (no secret)
            trial = _Trial(life, undisturbed, oracle, drawn(steps, runs, chance), chance)
            fault = trial.run()
            yield from _replies(cell, trial, fault)


def _run(life: Life) -> int:
    """Run a stream without a kill, with its snapshots; return the number of batches."""
    steps = 0
    for steps in life.steps():
        life.apply()
        if steps % SNAPSHOT_EVERY == 0:
            life.save()
    return steps


def drawn(steps: int, runs: int, chance: Random) -> dict[int, Moment]:
    """Draw the batches at which an engine is killed, each at most once: `runs` for each kind of moment, if it has them.

    A snapshot follows every batch whose number divides by SNAPSHOT_EVERY; the other kinds have the other batches.
    """
    snapshots = range(SNAPSHOT_EVERY, steps + 1, SNAPSHOT_EVERY)
    others = [step for step in range(1, steps + 1) if step not in snapshots]
    kills: dict[int, Moment] = dict.fromkeys(chance.sample(snapshots, min(runs, len(snapshots))), "snapshot")
    for at, step in enumerate(chance.sample(others, min(2 * runs, len(others)))):
        kills[step] = "between" if at % 2 else "apply"
    return kills


@dataclass
class _Trial:
    """A life with kills, beside one without. kills: the kind of moment by the number of the batch."""

    life: Life
    undisturbed: Life
    oracle: Oracle
    kills: Mapping[int, Moment]
    chance: Random
    found: dict[Moment, Recoveries] = field(default_factory=dict)
    last: Moment = "between"
    """The kind of the last kill."""

    def run(self) -> LifeError | None:
        """Run the stream to its end, or to the first fault, which is returned."""
        try:
            for step in self.life.steps():
                if step in self.kills:
                    self._check_changes()  # a fault so far is that of the kill before
                killed_at = self._apply(step)
                if killed_at is not None:
                    self.last = self.kills[step]
                    self.life.recover(killed_at, self.found.setdefault(self.last, Recoveries()))
                    self._check()
            self._check()
        except LifeError as error:
            return error
        return None

    def _apply(self, step: int) -> float | None:
        """Apply a batch, with the snapshot after it; return the moment of the kill if there is one."""
        moment = self.kills.get(step)
        if moment == "apply":
            return self.life.killed(self.life.apply, self._delay(self.undisturbed.applied))
        self.life.apply()
        if moment == "between":
            return self.life.killed(lambda: None, 0.0)
        if moment == "snapshot":
            return self.life.killed(self.life.save, self._delay([seconds for seconds, _ in self.undisturbed.written]))
        if step % SNAPSHOT_EVERY == 0:
            self.life.save()
        return None

    def _delay(self, seconds: Sequence[float]) -> float:
        """Draw the time from the beginning of a work to the kill, within the shortest time that the work has taken."""
        return self.chance.uniform(0.0, min(seconds))

    def _check(self) -> None:
        """Compare the changes so far with those of the undisturbed run, and the answer with DuckDB's."""
        self._check_changes()
        if wrong := self.life.wrong(self.oracle):
            raise LifeError("wrong", wrong)

    def _check_changes(self) -> None:
        until = self.life.consumer.until
        right = {time: rows for time, rows in self.undisturbed.consumer.changes.items() if time <= until}
        outcome, problem = compared(self.life.consumer.changes, right)
        if outcome != "once":
            raise LifeError(outcome, problem)


def _replies(cell: Cell, trial: _Trial, fault: LifeError | None) -> Iterator[CellReply]:
    """Yield a row for each kind of moment at which the engine was killed; the last one has the fault."""
    shared, right = _shared(trial.undisturbed, trial.life), _right(cell)
    moments = dict.fromkeys([*trial.found, trial.last])
    for moment in moments:
        at_fault = fault if moment == trial.last else None
        figures = _graded(at_fault.outcome if at_fault else right) | shared | _figures(trial.found.get(moment))
        note = _one_line(at_fault) if at_fault else ""
        yield CellReply(row=row_of(cell, moment), figures=figures, note=note, verified="oracle")


def _right(cell: Cell) -> Outcome:
    """Return the outcome without a fault: whole answers have no changes that could come twice."""
    return "right" if capabilities(cell.engine).output == "answers" else "once"


def _graded(outcome: Outcome) -> Figures:
    return {"outcome": [OUTCOMES.index(outcome)]}


def _shared(*lives: Life) -> Figures:
    """Return the figures that all rows of a cell share."""
    written = [each for life in lives for each in life.written]
    figures: Figures = {"start_seconds": [life.start for life in lives]}
    if written:
        figures["snapshot_seconds"] = [seconds for seconds, _ in written]
        figures["snapshot_bytes"] = [size for _, size in written]
    return figures


def _figures(found: Recoveries | None) -> Figures:
    return {"seconds": [*found.seconds], "rounds": [*found.rounds]} if found and found.seconds else {}


def _one_line(fault: object) -> str:
    return " ".join(str(fault).split())


def _on_spark(cell: Cell, dataset: Dataset, runs: int) -> Iterator[CellReply]:
    """Kill each kind of process of Spark; yield a row for each."""
    chance = Random(str(cell))  # noqa: S311 (no secret)
    undisturbed = survive(cell, dataset, StrikePlan(killing("driver"), 0, 0.0), chance)
    for victim in VICTIMS:
        plan = StrikePlan(killing(victim), runs, undisturbed.committed / runs)
        outcome = survive(cell, dataset, plan, chance)
        problems = [*undisturbed.problems, *outcome.problems]
        graded: Outcome = "wrong" if problems else "once"
        yield CellReply(
            row=row_of(cell, victim), verified="" if problems else "digest", note=_one_line("; ".join(problems)),
            figures=_graded(graded) | _figures_of(cell, outcome),
        )  # fmt: skip


def _figures_of(cell: Cell, outcome: SparkOutcome) -> Figures:
    size, found = cell.logical * cell.physical, outcome.recoveries
    figures: Figures = {"snapshot_bytes": [outcome.stored_bytes]}
    if found:
        figures["seconds"] = [each.seconds for each in found]
        figures["rounds"] = [each.batches * size for each in found]
    return figures
