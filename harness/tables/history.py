"""The history of each cell: a series of points over commits for each machine, and the steps between them.

A point is the median over all timed runs of one commit on one machine. Commits with edits are points, but no steps are
sought in them: they cannot be checked out again, and records of different edits have the same name.

Steps are change points by E-divisive (Matteson and James, JASA 109, 2014), sought within the series of a machine, so a
change of the machine never is a step. The method compares the distributions on both sides of a point by their energy
distance, so it needs no model of the noise. It splits the series at the point with the largest statistic, then the
parts, until a permutation test no longer finds the best split significant. The parameters:

- The exponent of distances is 1, the paper's usual choice.
- SIGNIFICANCE is 0.01 instead of the paper's 0.05, because a page shows hundreds of series, each of which may have a
  false step. PERMUTATIONS is the paper's 199, so the smallest p value is 0.005.
- MIN_SIZE is 3 instead of about 30: a new step should be visible after few commits, and two equal outliers are not one.
- The part after a split may end before the series does, as in the paper: simpler versions, in which it always reaches
  the end, find a step up and down again in 14% of series of 30 points instead of 69% (10% for 8 points, noise of 3%).
- The seed is fixed, so the same numbers always have the same change points.

The test assumes that the noise of neighboring points is independent. A slow drift of the machine looks like a step.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltamark.harness.measure.stats import interval, median
from deltamark.harness.results.commits import COMMIT, Commit, KnownCommit, ordered_commits
from deltamark.harness.results.record import MEASURING, Record
from deltamark.harness.system.machine import Facts, Header
from deltamark.harness.tables.relation import Relations

SIGNIFICANCE = 0.01
PERMUTATIONS = 199
MIN_SIZE = 3
SEED = 20_140_101
FIRST_PERMUTATIONS = 8
MAX_ELEMENTS = 1 << 17
"""The number of elements, 1 MB, of the array for the permutations that are computed together. It fits the cache."""

TOLERANCE = 1e-9
"""The relative error of sums up to which two statistics count as equal."""

Floats = NDArray[np.float64]
Part = tuple[int, int]
"""The bounds of a part of a series, as in `range`."""


@dataclass(frozen=True)
class ChangePoint:
    """A change of a distribution. position: the index of the first value after it."""

    position: int
    p_value: float


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """Return the significant change points, in the order of the series."""
    series = np.asarray(values, np.float64)
    random = np.random.default_rng(SEED)
    found: list[ChangePoint] = []
    while True:
        parts = list(pairwise([0, *sorted(point.position for point in found), len(series)]))
        best, position = max(_splits(series, parts), default=(0.0, 0))
        p_value = _p_value(series, parts, best, random) if best > 0 else 1.0
        if p_value > SIGNIFICANCE:
            return sorted(found, key=lambda point: point.position)
        found.append(ChangePoint(position, p_value))


def _splits(series: Floats, parts: Sequence[Part]) -> Iterator[tuple[float, int]]:
    """Return the statistic and the position of the best split of each part."""
    for first, end in _divisible(parts):
        statistics = _statistics(series[None, first:end]).max(axis=2)[0]
        split = int(statistics.argmax())
        yield float(statistics[split]), first + split


def _divisible(parts: Iterable[Part]) -> list[Part]:
    return [(first, end) for first, end in parts if end - first >= 2 * MIN_SIZE]


def _p_value(series: Floats, parts: Sequence[Part], best: float, random: np.random.Generator) -> float:
    """Return the share of permutations within the parts whose best split is as good.

    The count stops where the share can no longer be significant, which is after a few permutations of most noise.
    """
    as_good, done = 1, 0
    most = max(1, MAX_ELEMENTS // max(end - first for first, end in parts) ** 2)
    while done < PERMUTATIONS and as_good <= SIGNIFICANCE * (PERMUTATIONS + 1):
        count = min(most, done + FIRST_PERMUTATIONS, PERMUTATIONS - done)
        highest = np.zeros(count)
        for first, end in _divisible(parts):
            rows = random.permuted(np.tile(series[first:end], (count, 1)), axis=1)
            np.maximum(highest, _statistics(rows).max(axis=(1, 2)), out=highest)
        as_good += int(np.count_nonzero(highest >= best * (1 - TOLERANCE)))
        done += count
    return as_good / (PERMUTATIONS + 1)


def _statistics(rows: Floats) -> Floats:
    """Return the statistic Q of each row, by the split and by the end of the part after the split.

    Q is m n / (m + n) times the energy distance of the m values before the split and the n values after it: a linear
    function of the sums of all distances among the first values of the row, and between the first ones and the others.
    """
    of_sums, of_splits, of_ends = _coefficients(rows.shape[1])
    sums = np.zeros((len(rows), *of_sums.shape))
    distances = sums[:, 1:, 1:]
    np.abs(rows[:, :, None] - rows[:, None, :], out=distances)
    distances.cumsum(axis=1, out=distances).cumsum(axis=2, out=distances)
    within = np.diagonal(sums, axis1=1, axis2=2).copy()
    sums *= of_sums
    sums += of_splits * within[:, :, None]
    sums += of_ends * within[:, None, :]
    return sums


@cache
def _coefficients(size: int) -> tuple[Floats, Floats, Floats]:
    """Return the coefficients of Q: of the sums up to split and end, up to the split alone, and up to the end alone.

    They are 0 if a part is too short.
    """
    before, end = np.arange(size + 1.0)[:, None], np.arange(size + 1.0)[None, :]
    after = end - before
    with np.errstate(divide="ignore", invalid="ignore"):
        between, early, late = 2 / end, after / ((before - 1) * end), before / ((after - 1) * end)
        parts = (between + 2 * late, -between - late - early, -late)
    valid = (before >= MIN_SIZE) & (after >= MIN_SIZE)
    of_sums, of_splits, of_ends = (np.where(valid, part, 0.0) for part in parts)
    return of_sums, of_splits, of_ends


@dataclass(frozen=True)
class Point:
    """The time of a cell at a commit. position: that of the commit among all commits of the history."""

    position: int
    commit: Commit
    seconds: float
    """The median of the runs."""
    low: float
    high: float
    """The 95% confidence interval of the median; the fastest and the slowest run if there are fewer than 6."""
    runs: int
    record: Record
    """The latest record."""


@dataclass(frozen=True)
class Step:
    """A change point of a series. before, after: the points of the two parts that it separates."""

    before: Sequence[Point]
    after: Sequence[Point]
    p_value: float

    @property
    def commit(self) -> Commit:
        """The first measured commit after the change."""
        return self.after[0].commit

    @property
    def log_ratio(self) -> float:
        """The logarithm of the median time after the change, divided by the one before it."""
        return math.log(level(self.after) / level(self.before))

    @property
    def percent(self) -> float:
        """The change of the time; positive if the cell has become slower."""
        return 100 * math.expm1(self.log_ratio)

    @property
    def notes(self) -> list[str]:
        """Circumstances other than the code that may explain the step."""
        one, other = self.before[-1].record, self.after[0].record
        notes = [f"other {name}" for name in ("data", "versions") if getattr(one, name) != getattr(other, name)]
        return [*notes, *(["same code"] if one.code == other.code else [])]


@dataclass(frozen=True)
class Series:
    """The points of a cell on one machine, in the order of commits."""

    cell: str
    machine: str
    points: Sequence[Point]
    parts: Sequence[Sequence[Point]]
    """The points of commits without edits, divided at the steps."""
    steps: Sequence[Step]


@dataclass(frozen=True)
class CommitHistory:
    """The series of all cells. Cells and machines are in the order of their names and first commits."""

    commits: Sequence[Commit]
    machines: Sequence[str]
    cells: Mapping[str, Sequence[Series]]

    @property
    def steps(self) -> list[tuple[Series, Step]]:
        """All steps, those at the latest commits first, and the largest of a commit first."""
        steps = [(each, step) for series in self.cells.values() for each in series for step in each.steps]
        return sorted(steps, key=lambda pair: (-pair[1].after[0].position, -abs(pair[1].log_ratio)))


def level(points: Iterable[Point]) -> float:
    """Return the median time of points."""
    return math.exp(median([math.log(point.seconds) for point in points]))


UNKNOWN_MACHINE = "unknown machine"

Measurements = tuple[Sequence[Record], Mapping[str, Header]]
"""The records of a directory, and the headers of their sessions by id."""

VIEWS = f"""
CREATE VIEW measured AS SELECT DISTINCT ON (machine, session, commit, cell_name, key, finished_at, figures['seconds']) *
    FROM (SELECT *, coalesce(name, '{UNKNOWN_MACHINE}') AS machine FROM given
        LEFT JOIN machines USING (part, session)) ORDER BY id DESC;
CREATE TABLE comparable AS FROM measured WHERE status = 'ok' AND figures['seconds'] IS NOT NULL
    AND measuring = {MEASURING} AND regexp_full_match(commit, '{COMMIT}');
"""


def relation(parts: Iterable[Measurements]) -> Relations:
    """Return the relations of the records of several directories.

    `measured` has each record with its machine, once even if several directories have it. `comparable` has those that
    are points: with numbers, timed as today, and with a commit.
    """
    parts = list(parts)
    db = Relations(records for records, _ in parts)
    rows = [
        {"part": part, "session": name, "name": describe(header["machine"])}
        for part, (_, sessions) in enumerate(parts) for name, header in sessions.items()
    ]  # fmt: skip
    db.add("machines", pa.Table.from_pylist(rows, MACHINES))
    db.rows(VIEWS)
    return db


MACHINES = pa.schema([("part", pa.int64()), ("session", pa.string()), ("name", pa.string())])


def describe(facts: Facts) -> str:
    """Describe a machine by the facts that decide its speed. A new kernel does not make a new machine."""
    limits = "" if facts["limits"] == "none" else f", limits {facts['limits']}"
    cores = f"{facts['usable']} of {facts['cores']}" if facts["usable"] != facts["cores"] else f"{facts['cores']}"
    return f"{facts['cpu']}, {cores} cores, {facts['memory_gb']} GB{limits}"


def commit_history(db: Relations, known: Mapping[str, KnownCommit], where: str = "true") -> CommitHistory:
    """Group comparable records by cell and machine, and find the steps.

    known: the facts of commits. where: the condition of SQL that selects records.
    """
    here = f"FROM comparable WHERE {where} GROUP BY"
    commits = ordered_commits(dict(db.rows(f"SELECT commit, min(finished_s) {here} commit")), known)
    position = {commit.name: number for number, commit in enumerate(commits)}
    rows = [
        (cell, position[name], machine, seconds, db.records[latest])
        for cell, name, machine, seconds, latest in db.rows(f"""
            SELECT cell_name, commit, machine, flatten(list(figures['seconds'])),
                arg_max(id, (finished_at, session, figures['seconds'])) {here} ALL""")
    ]
    groups: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for cell, at, machine, seconds, latest in sorted(rows, key=lambda row: row[:3]):
        low, high = interval(seconds) or (min(seconds), max(seconds))
        groups[cell, machine].append(Point(at, commits[at], median(seconds), low, high, len(seconds), latest))
    cells: dict[str, list[Series]] = defaultdict(list)
    for (cell, machine), points in groups.items():
        cells[cell].append(_series(cell, machine, points))
    return CommitHistory(commits, list(dict.fromkeys(row[2] for row in sorted(rows, key=lambda row: row[1:3]))), cells)


def _series(cell: str, machine: str, points: Sequence[Point]) -> Series:
    clean = [point for point in points if not point.commit.is_dirty]
    changes = change_points([math.log(point.seconds) for point in clean])
    bounds = [0, *(change.position for change in changes), len(clean)]
    parts = [clean[first:end] for first, end in pairwise(bounds) if end > first]
    steps = [
        Step(before, after, change.p_value) for (before, after), change in zip(pairwise(parts), changes, strict=True)
    ]
    return Series(cell, machine, points, parts, steps)
