"""The history of each cell: a series of points over commits for each machine, and the steps between them.

A point is the median over all timed runs of one commit on one machine. Commits with edits are points, but no steps are
sought in them: they cannot be checked out again, and records of different edits have the same name. Records are read
from the files below a directory, or in a branch of a git repository.

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
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.compare.trees import git, resolve
from deltamark.harness.measure.stats import interval, median
from deltamark.harness.results.commits import Commit, KnownCommit, has_commit, ordered_commits
from deltamark.harness.results.record import MEASURING, Record, of_queries
from deltamark.harness.results.store import RECORDS, SESSIONS, complete_lines, read_lines, read_sessions
from deltamark.harness.system.machine import Facts, Header

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
class RecordFiles:
    """The contents of the files of one machine. path: that of the records, for errors."""

    path: Path
    records: bytes
    sessions: bytes


def in_directory(directory: Path) -> list[RecordFiles]:
    """Read all files of records at any depth below a directory."""
    paths = sorted(directory.rglob(RECORDS))
    if not paths:
        remedy = "make bench writes records there, or name another directory: RESULTS=DIR"
        raise DeltamarkError(f"no {RECORDS} in a directory", directory, remedy)
    return [RecordFiles(path, _content(path), _content(path.with_name(SESSIONS))) for path in paths]


def _content(path: Path) -> bytes:
    with naming(path):
        return path.read_bytes() if path.exists() else b""


def in_branch(repository: Path, branch: str) -> list[RecordFiles]:
    """Read all files of records in a branch, or in another commit."""
    commit = resolve(repository, branch)
    names = git(repository, "ls-tree", "-r", "-z", "--full-tree", "--name-only", commit).split("\0")
    paths = [path for path in map(Path, names) if path.name in (RECORDS, SESSIONS)]
    contents = _contents(repository, commit, paths)
    if not any(path.name == RECORDS for path in paths):
        raise DeltamarkError(f"no {RECORDS} in a branch", branch, "commit records to it, or name another: BRANCH=NAME")
    return [
        RecordFiles(Path(f"{branch}:{path}"), content, contents.get(path.with_name(SESSIONS), b""))
        for path, content in contents.items()
        if path.name == RECORDS
    ]


def _contents(repository: Path, commit: str, paths: Iterable[Path]) -> Mapping[Path, bytes]:
    """Read files of a commit by one process of git."""
    paths = list(paths)
    requests = "".join(f"{commit}:{path}\n" for path in paths)
    reading = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=repository, input=requests.encode(), capture_output=True, check=True
    )
    return dict(zip(paths, _blobs(reading.stdout), strict=True))


def _blobs(output: bytes) -> Iterator[bytes]:
    """Split the output of `cat-file --batch`: before each object a line with its size, and after it an empty line."""
    at = 0
    while at < len(output):
        start = output.index(b"\n", at) + 1
        size = int(output[at:start].split()[-1])
        yield output[start : start + size]
        at = start + size + 1


UNKNOWN_MACHINE = "unknown machine"


@dataclass(frozen=True)
class MachineRecord:
    """A record with the description of its machine."""

    record: Record
    machine: str


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


def read(files: Iterable[RecordFiles], benchmark: str = DEFAULT) -> tuple[list[MachineRecord], int]:
    """Read the records of a benchmark; return them, and the number of lines of other versions.

    A record in several files counts once.
    """
    found: dict[tuple[object, ...], MachineRecord] = {}
    foreign = 0
    for each in files:
        stored = read_lines(complete_lines(each.records), each.path)
        sessions = read_sessions(complete_lines(each.sessions), each.path.with_name(SESSIONS))
        foreign += stored.foreign
        for measured in with_machines(of_queries(stored.records, "", benchmark), sessions):
            record = measured.record
            identity = (measured.machine, record.session, record.cell, record.key, record.finished_at, *record.seconds)
            found[identity] = measured
    return list(found.values()), foreign


def with_machines(records: Iterable[Record], sessions: Mapping[str, Header]) -> list[MachineRecord]:
    described = {name: describe(header["machine"]) for name, header in sessions.items()}
    return [MachineRecord(record, described.get(record.session, UNKNOWN_MACHINE)) for record in records]


def describe(facts: Facts) -> str:
    """Describe a machine by the facts that decide its speed. A new kernel does not make a new machine."""
    limits = "" if facts["limits"] == "none" else f", limits {facts['limits']}"
    cores = f"{facts['usable']} of {facts['cores']}" if facts["usable"] != facts["cores"] else f"{facts['cores']}"
    return f"{facts['cpu']}, {cores} cores, {facts['memory_gb']} GB{limits}"


def comparable(measured: MachineRecord) -> bool:
    """Return whether a record is a point: it has numbers, timed as today, and names its commit."""
    record = measured.record
    return record.has_numbers and record.measuring == MEASURING and has_commit(record)


def commit_history(measured: Iterable[MachineRecord], known: Mapping[str, KnownCommit]) -> CommitHistory:
    """Group comparable records by cell and machine, and find the steps. known: the facts of commits."""
    usable = [each for each in measured if comparable(each)]
    commits = ordered_commits((each.record for each in usable), known)
    position = {commit.name: number for number, commit in enumerate(commits)}
    usable.sort(key=lambda each: (each.record.cell, position[each.record.commit], each.machine))
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for each in usable:
        groups[each.record.cell, each.machine].append(each.record)
    cells: dict[str, list[Series]] = defaultdict(list)
    for (cell, machine), records in groups.items():
        cells[cell].append(_series(cell, machine, _points(records, commits, position)))
    usable.sort(key=lambda each: (position[each.record.commit], each.machine))
    return CommitHistory(commits, list(dict.fromkeys(each.machine for each in usable)), cells)


def _points(records: Iterable[Record], commits: Sequence[Commit], position: Mapping[str, int]) -> list[Point]:
    by_commit: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        by_commit[position[record.commit]].append(record)
    return [_point(number, commits[number], of_commit) for number, of_commit in by_commit.items()]


def _point(number: int, commit: Commit, records: Sequence[Record]) -> Point:
    seconds = [run for record in records for run in record.seconds]
    low, high = interval(seconds) or (min(seconds), max(seconds))
    latest = max(records, key=lambda record: (record.finished_at, record.session, record.seconds))
    return Point(number, commit, median(seconds), low, high, len(seconds), latest)


def _series(cell: str, machine: str, points: Sequence[Point]) -> Series:
    clean = [point for point in points if not point.commit.is_dirty]
    changes = change_points([math.log(point.seconds) for point in clean])
    bounds = [0, *(change.position for change in changes), len(clean)]
    parts = [clean[first:end] for first, end in pairwise(bounds) if end > first]
    steps = [
        Step(before, after, change.p_value) for (before, after), change in zip(pairwise(parts), changes, strict=True)
    ]
    return Series(cell, machine, points, parts, steps)
