"""The measurement of window functions: the time of one inserted or deleted row, by the rows of its partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.windows import CYCLE, PLACES, SALES
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.engines.base import Engine
from deltamark.harness.engines.registry import capabilities, open_engine
from deltamark.harness.measure.client import CellReply, WrongError
from deltamark.harness.measure.runs import answers_of, checked_run
from deltamark.harness.measure.stats import median
from deltamark.harness.results.record import Figures
from deltamark.harness.system.clock import Stopwatch, timed, without_collections

CHECKED_ROWS = 2000
"""The largest partition whose answers are compared with DuckDB's: a change may change all rows of the answer."""

SECONDS = 1.0
"""The time after which no other changes are made. Not tuned."""

REMEDY = "make verify BENCHMARK=windows WORKLOAD=changes shows the first difference"


def measure(cell: Cell, data: Path) -> Iterator[CellReply]:
    """Time the changes of a partition one by one; yield a row with the median time and size of a change by its place.

    At least one row is inserted and deleted at each place. An engine that takes several batches takes ever more of
    them, because the first one of a request meets cold caches.
    """
    dataset = Dataset.open(data)
    work = workload(dataset, cell.workload)
    is_checked = work.most_live(SALES) <= CHECKED_ROWS
    if is_checked:
        try:
            checked_run(cell, answers_of(cell, work), dataset, work)
        except WrongError as error:
            raise WrongAnswerError("a wrong answer", f"{cell}, {error}", REMEDY) from error
    applied: list[tuple[int, float]] = []
    watch = Stopwatch()
    with closing(open_engine(cell, dataset, work)) as engine, without_collections():
        engine.take(1)
        engine.load()
        while watch.seconds < SECONDS and (left := work.rounds - 1 - len(applied)):
            rounds = min(max(len(applied), CYCLE), left) if engine.takes_several else CYCLE
            with watch:
                applied += _applied(engine, rounds)
    yield CellReply(figures=_figures(cell, applied), verified="oracle" if is_checked else "")


def _applied(engine: Engine, rounds: int) -> list[tuple[int, float]]:
    """Apply rounds one by one; return the changes of the answer and the seconds of each."""
    if engine.takes_several:
        engine.take_several(1, rounds)
        return engine.apply_several()
    applied = []
    for _ in range(rounds):
        engine.take(1)
        seconds, changes = timed(engine.apply)
        applied.append((changes, seconds if engine.own_seconds is None else engine.own_seconds))
    return applied


def _figures(cell: Cell, applied: list[tuple[int, float]]) -> Figures:
    figures: Figures = {}
    for place in dict.fromkeys(PLACES):
        of_place = [each for number, each in enumerate(applied) if PLACES[number % CYCLE // 2] == place]
        figures[place] = [median([seconds for _, seconds in of_place])]
        if capabilities(cell.engine).output != "answers":  # an answer has no changes
            figures[f"{place}_changes"] = [median([changes for changes, _ in of_place])]
    return figures
