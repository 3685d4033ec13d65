"""The data of the page of the field: the grades of all engines, and the numbers of each choice that a visitor has.

A scope is a set of records that may be compared: those of one directory, machine, benchmark, workload and number of
workers. The relations, for SQL, besides those of relation.py:

- `numbers`: the last record of each default dataflow, with its figures and the share of each: the best right figure of
  an engine in the same cell divided by its own, or the reverse for rates, from 0 to 1.
- `means`: for each engine and batching L x P of a scope, the geometric means of figures and shares over the queries
  with right answers, and the numbers of queries by their outcome.
- `graded`: the last grade of each query of TPC-H and engine by the suite of coverage.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT as BENCHMARK
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import THROUGHPUT
from deltamark.harness.console.table import MARK, NOTHING, RATE, TableEntry, Units, brief, counted, rate, ratio
from deltamark.harness.results.commits import Commit
from deltamark.harness.results.record import Record, of_suites
from deltamark.harness.results.store import CONTRIBUTED
from deltamark.harness.system.machine import Header
from deltamark.harness.tables.growth import recorded_grades
from deltamark.harness.tables.history import UNKNOWN_MACHINE, describe
from deltamark.harness.tables.relation import Relations
from deltamark.harness.tables.suites import GRADE_WORDS, GRADES

SHORT_RATE, SIZE = Units(RATE.sizes, " ", None), Units({"MB": 1e6, "GB": 1e9}, " ", None)


def _fitting(units: Units) -> Callable[[float], str]:
    return lambda value: units.written(value, units.fitting(value))


def _brief(seconds: float) -> str:
    return brief(seconds).text


class Metric(NamedTuple):
    """A column of figures. behind: the word for an engine that is not the best. show: writes a figure."""

    figure: str
    title: str
    unit: str
    behind: str
    show: Callable[[float], str]


METRICS = (
    Metric("rate", "Rate", "tuples per second", "slower", _fitting(SHORT_RATE)),
    Metric("p99", "Latency", "99th percentile", "slower", _brief),
    Metric("peak", "Memory", "peak", "more", _fitting(SIZE)),
    Metric("cpu", "CPU time", "million tuples", "more", _brief),
)

PLACE = "part, workload, workers, L, P"


def _shares() -> str:
    """Return the columns of shares, and whether only one engine has the figure.

    A figure that is not plausible is not the best, unless all are so.
    """
    columns = []
    for name, least in [(each.figure, "max" if each.figure == "rate" else "min") for each in METRICS]:
        of = f"coalesce({least}({name}) FILTER (NOT is_doubtful) OVER same, {least}({name}) OVER same)"
        columns.append(f"least(1, {f'{name} / {of}' if name == 'rate' else f'{of} / {name}'}) AS {name}_share")
        columns.append(f"count({name}) OVER same = 1 AS {name}_alone")
    return ", ".join(columns)


def _means() -> str:
    return ", ".join(
        f"geomean({each}) AS {each}, geomean({each}_share) AS {each}_share, bool_and({each}_alone) AS {each}_alone"
        for each in (metric.figure for metric in METRICS)
    )


VIEWS = f"""
CREATE TABLE numbers AS SELECT *, {_shares()} FROM (
        SELECT * EXCLUDE (record_cpu), logical AS L, physical AS P, nullif(peak_bytes, 0) AS peak,
            1e6 * record_cpu / tuples AS cpu
        FROM (SELECT *, of_fastest(figures, CASE WHEN is_external THEN 'timed_cpu' ELSE 'cpu' END) AS record_cpu
            FROM latest WHERE is_default)
        QUALIFY row_number() OVER (PARTITION BY {PLACE}, query, engine ORDER BY id DESC) = 1
    ) WINDOW same AS (PARTITION BY {PLACE}, query);
CREATE TABLE means AS SELECT {PLACE}, engine, count(*) FILTER (has_numbers) AS right_ones,
        list(why ORDER BY query) FILTER (why IS NOT NULL) AS others, bool_or(is_doubtful) AS is_doubtful, {_means()}
    FROM numbers GROUP BY ALL;
"""

GRADED = """
CREATE TABLE graded AS SELECT regexp_extract("row", '^\\S+ (.*)$', 1) AS engine, why, dataset,
        cardinality(figures) = 0 AS is_refused, figures['grade'][1] AS grade,
        figure_of(figures, 'only_insertions') > 0 AS only_insertions
    FROM given WHERE table_name = 'coverage'
    QUALIFY row_number() OVER (PARTITION BY dataset, "row" ORDER BY finished_at DESC, id DESC) = 1;
"""


@dataclass(frozen=True)
class MachineRecords:
    """The records of a directory. name: its path in the results."""

    name: str
    records: Sequence[Record]
    sessions: Mapping[str, Header]

    def machine(self, record: Record) -> str:
        header = self.sessions.get(record.session)
        return describe(header["machine"]) if header else UNKNOWN_MACHINE


@dataclass(frozen=True)
class Answers:
    """The outcomes of the queries of an engine in the suite of coverage."""

    right: int
    wrong: int
    wrong_after_deletions: int
    refused: int
    failed: int
    grade: str
    """The moments at which the right answers are right, in words."""
    only_insertions: bool
    """Whether some right answers are right under insertions only."""

    @property
    def total(self) -> int:
        return self.right + self.wrong + self.refused + self.failed


Figure = tuple[str, float | None, str]
"""The text, the share of the best (None for a word), and the text of the distance to the best."""
Cell = tuple[str, str, tuple[Figure | None, ...]]
"""The fragment of the address of the record, a note, and a figure for each of METRICS. A word stands in the first."""

ALL_QUERIES = "all queries"


@dataclass(frozen=True)
class Batch:
    """A batching of a scope. is_usual: whether it is a column although it is not chosen."""

    logical: int
    physical: int
    is_usual: bool

    @property
    def name(self) -> str:
        if self.logical == 1 or self.physical == 1:
            return f"{self.logical * self.physical:,}" + (", one answer" if self.logical > 1 else "")
        return f"{self.logical:,} \u00d7 {self.physical:,}"

    @property
    def rounds(self) -> str:
        """The size of a batch in words."""
        size = counted(self.logical * self.physical, "round")
        return size + (", one answer" if self.logical > 1 == self.physical else "")


class Part(NamedTuple):
    """The records of a benchmark and a scale factor in a directory, of one machine."""

    directory: str
    machine: str
    benchmark: str
    sf: str

    @property
    def place(self) -> str:
        return f"{self.machine} ({self.directory})"

    @property
    def data(self) -> str:
        return f"{title_of(self.benchmark)}, scale factor {self.sf}"

    @property
    def is_contributed(self) -> bool:
        return self.directory.startswith(f"{CONTRIBUTED}/")

    @property
    def report(self) -> str:
        """The file of the report that has the records."""
        words = [self.directory, *([] if self.benchmark == BENCHMARK else [self.benchmark]), f"sf{self.sf}"]
        return re.sub(r"[^\w.-]+", "-", "-".join(words)) + ".html"


TIE = 0.95
"""The share of the best rate from which an engine ties with the fastest: that of tables/findings.py."""


@dataclass(frozen=True)
class Scope:
    """The numbers that may be compared with each other."""

    part: Part
    workload: str
    workers: int
    batches: Sequence[Batch]
    queries: Sequence[str]
    cells: Mapping[str, Mapping[str, Sequence[Cell | None]]]
    """The cells of each engine, by query, for each of the batches."""

    def cell(self, engine: str, batch: int, query: str = ALL_QUERIES) -> Cell | None:
        of = self.cells.get(engine, {}).get(query)
        return of[batch] if of else None

    def columns(self, batch: int) -> list[int]:
        """Return the batches that are columns if one is chosen."""
        return [at for at, each in enumerate(self.batches) if each.is_usual or at == batch]

    @property
    def counts(self) -> list[int]:
        """The number of engines with each of the batches."""
        return [sum(self.cell(engine, at) is not None for engine in self.cells) for at in range(len(self.batches))]

    @property
    def weight(self) -> int:
        """The number of numbers beside those of another engine, by which the first scope is chosen."""
        return sum(count for count in self.counts if count > 1)

    @property
    def first_batch(self) -> int:
        """The smallest batch of most engines."""
        return self.counts.index(max(self.counts))

    @property
    def small_batch(self) -> int:
        """The smallest batch of several engines, or the first one if no batch has several."""
        return next((at for at, count in enumerate(self.counts) if count > 1), self.first_batch)

    @property
    def leader(self) -> tuple[str, str]:
        """The fastest engine in small batches, or several that tie, and a note about it."""
        at = self.small_batch
        figures = [(engine, cell[2][0]) for engine in self.cells if (cell := self.cell(engine, at))]
        ranked = sorted((-each[1], engine, each[0]) for engine, each in figures if each and each[1] is not None)
        where = f"in batches of {self.batches[at].rounds}, {self.workload}"
        if not ranked:
            return "none", f"No engine has a rate {where}."
        best, _, text = ranked[0]
        leaders = [engine for share, engine, _ in ranked if share / best >= TIE]
        if len(leaders) < len(ranked):
            share, engine, _ = ranked[len(leaders)]
            behind = f"{engine} is {_distance(share / best, 'slower')}"
        else:
            behind = "no other engine is slower" if len(ranked) > 1 else "no other engine was measured"
        return " = ".join(leaders), f"{text} {where}; {behind}."


@dataclass(frozen=True)
class Gain:
    """The time of recomputing relative to that of maintaining."""

    engine: str
    place: str
    title: str
    gain: float
    lines: tuple[str, ...]
    command: str
    text: str = ""
    """That of the first engine."""


@dataclass(frozen=True)
class CommitPoint:
    """The numbers of an engine at a commit. batch: the rounds in a batch of the rate."""

    engine: str
    version: str
    commit: str
    part: Part
    date: str
    cells: int
    rate: TableEntry
    batch: str


MAX_COLUMNS = 4


class Field:
    """The engines and numbers of the records of several directories."""

    def __init__(self, machines: Sequence[MachineRecords]) -> None:
        self.machines = machines
        groups: dict[tuple[str, str, str, str], list[Record]] = defaultdict(list)
        for each in machines:
            for record in each.records:
                if record.suite == THROUGHPUT:
                    groups[each.name, each.machine(record), record.benchmark, record.sf].append(record)
        self.parts = [Part(*each) for each in groups]
        self._db = Relations.of_queries(*groups.values(), grades=self.grades)
        self._db.rows(VIEWS)

    @cached_property
    def grades(self) -> Mapping[tuple[str, str, str], str]:
        """The grades of certificates, by benchmark, query and short name of the engine."""
        return recorded_grades(chain.from_iterable(each.records for each in self.machines))

    def certificates(self, engine: str) -> Counter[str]:
        """Count the grades of the certificates of an engine for the queries of TPC-H."""
        return Counter(grade for (name, _, of), grade in self.grades.items() if (name, of) == (BENCHMARK, engine))

    @cached_property
    def answers(self) -> Mapping[str, Answers]:
        """The grades of the suite of coverage for the queries of TPC-H, by the short name of the engine."""
        records = chain.from_iterable(of_suites(each.records) for each in self.machines)
        db = Relations([[record for record in records if record.suite == "coverage"]])
        db.rows(GRADED)
        is_wrong, is_right = f"grade = {GRADES.index('wrong')}", f"grade > {GRADES.index('wrong')}"
        rows = db.rows(f"""
            SELECT engine, count(*) FILTER ({is_right}), count(*) FILTER ({is_wrong}),
                count(*) FILTER ({is_wrong} AND only_insertions), count(*) FILTER (why IS NULL AND is_refused),
                count(*) FILTER (why IS NOT NULL), min(grade) FILTER ({is_right}),
                coalesce(bool_or(only_insertions) FILTER ({is_right}), false)
            FROM graded GROUP BY engine""")
        return {
            engine: Answers(
                right, wrong, deleted, refused, failed,
                "" if grade is None else GRADE_WORDS[GRADES[int(grade)]], only_insertions,
            )
            for engine, right, wrong, deleted, refused, failed, grade, only_insertions in rows
        }  # fmt: skip

    @cached_property
    def engines(self) -> Mapping[str, Record]:
        """The latest record of each engine with numbers, by its short name, ours first."""
        found = self._db.rows(
            "SELECT short, arg_max(id, finished_at) FROM numbers GROUP BY short, ours ORDER BY NOT ours"
        )
        return {short: self._db.records[at] for short, at in found}

    @cached_property
    def recomputing(self) -> frozenset[str]:
        return frozenset(
            short for (short,) in self._db.rows("SELECT DISTINCT short FROM numbers WHERE only_recomputes")
        )

    @cached_property
    def scopes(self) -> list[Scope]:
        """All scopes, those of this project first, and of these the one with most compared numbers."""
        found: dict[tuple[int, str, int], list[tuple[Any, ...]]] = defaultdict(list)
        of_means = ", ".join(f"m.{each.figure}, m.{each.figure}_share, m.{each.figure}_alone" for each in METRICS)
        of_numbers = of_means.replace("m.", "n.")
        for row in self._db.rows(f"""
            SELECT part, workload, workers, L, P, '{ALL_QUERIES}', short, right_ones, others, m.is_doubtful, {of_means},
                engine, NULL
            FROM means m JOIN (SELECT DISTINCT engine, short FROM numbers) USING (engine)
            UNION ALL SELECT part, workload, workers, L, P, query, short, CASE WHEN has_numbers THEN 1 ELSE 0 END,
                CASE WHEN why IS NULL THEN NULL ELSE [why] END, n.is_doubtful, {of_numbers}, engine, key
            FROM numbers n
            ORDER BY part, workload, workers, L * P, L"""):
            found[row[:3]].append(row[3:])
        scopes = [self._scope(*place, rows) for place, rows in found.items()]
        return sorted(scopes, key=lambda scope: (scope.part.is_contributed, -scope.weight))

    def _scope(self, part: int, workload: str, workers: int, rows: Sequence[tuple[Any, ...]]) -> Scope:
        batchings = list(dict.fromkeys(row[:2] for row in rows))
        queries = sorted({row[2] for row in rows} - {ALL_QUERIES})
        cells: dict[str, dict[str, list[Cell | None]]] = {}
        for logical, size, query, engine, right, others, doubtful, *figures, of_engine, key in rows:
            of = cells.setdefault(engine, {}).setdefault(query, [None] * len(batchings))
            fragment = row_id(key) if key else table_id(of_engine, workload, logical, size, workers)
            missing = "" if key else _missing(right, len(queries), others or [])
            shown = _figures(figures, MARK * doubtful) if right else (_word(others),)
            of[batchings.index((logical, size))] = (fragment, missing, shown)
        usual = _usual(batchings, [of[ALL_QUERIES] for of in cells.values()])
        batches = [Batch(logical, size, (logical, size) in usual) for logical, size in batchings]
        return Scope(self.parts[part], workload, workers, batches, queries, cells)

    @property
    def reports(self) -> list[tuple[str, str, str, str]]:
        """The directory, the data, the machines and the file of each report."""
        machines: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for part in self.parts:
            machines[part.directory, part.data, part.report].append(part.machine)
        return [(name, data, "; ".join(of), file) for (name, data, file), of in machines.items()]

    def history(self) -> list[CommitPoint]:
        """Return the numbers of each engine, version and commit on each machine, in the order of time.

        The rate is that of the batching that most commits have, in the workload insert with one worker.
        """
        rows = self._db.rows("""
            WITH single AS (FROM records WHERE has_numbers AND is_default AND plain(workload) AND workers = 1),
                place AS (SELECT logical AS L, physical AS P FROM single GROUP BY logical, physical
                    ORDER BY count(DISTINCT (part, commit, engine)) DESC, L * P DESC LIMIT 1)
            SELECT short, coalesce(engine_version, any_value(versions)), commit, part, left(min(finished_at), 10),
                count(DISTINCT cell), geomean(CASE WHEN (logical, physical) = (L, P) THEN rate END),
                any_value(L), any_value(P)
            FROM single, place
            GROUP BY short, ours, engine_version, commit, part ORDER BY NOT ours, short, min(finished_at)""")
        return [
            CommitPoint(
                short, version, Commit(commit, 0).short, self.parts[part], date, cells,
                rate(mean) if mean else NOTHING, Batch(logical, physical, is_usual=True).rounds,
            )
            for short, version, commit, part, date, cells, mean, logical, physical in rows
        ]  # fmt: skip

    def gains(self) -> list[Gain]:
        """Compare the fastest engine that recomputes with each one that maintains, in each scope and batching.

        A gain is the geometric mean over the queries that both have.
        """
        rows = self._db.rows("""
            SELECT n.part, n.workload, n.workers, n.L, n.P, n.short, geomean(n.rate / r.rate), count(*), mode(r.fastest)
            FROM numbers n
            JOIN (SELECT part, workload, workers, L, P, query, max(rate) AS rate, arg_max(short, rate) AS fastest
                FROM numbers WHERE has_numbers AND recomputes AND NOT is_doubtful GROUP BY ALL) r
                USING (part, workload, workers, L, P, query)
            WHERE n.has_numbers AND NOT n.recomputes AND NOT n.is_doubtful
            GROUP BY n.part, n.workload, n.workers, n.L, n.P, n.short, n.ours
            ORDER BY n.part, NOT plain(n.workload), n.workload, n.workers, n.L * n.P, n.L, NOT n.ours, n.short""")
        found: list[Gain] = []
        for number, workload, workers, logical, physical, engine, gain, queries, by in rows:
            part = self.parts[number]
            several = f", {workers} workers" if workers > 1 else ""
            title = f"{workload}: {Batch(logical, physical, is_usual=True).rounds}{several}"
            lines = (f"{ratio(gain).text} in the geometric mean of {counted(queries, 'query')}", f"recomputed by {by}")
            command = f"make tables SF={part.sf} MACHINE={part.directory} TABLE=findings"
            place = f"{part.data}, {part.place}"
            first = not found or (found[-1].place, found[-1].title) != (place, title)
            text = ratio(gain).text if first else found[-1].text
            found.append(Gain(engine, place, title, gain, lines, command, text))
        return found


def title_of(name: str) -> str:
    """Return the title of a benchmark, or its name if its folder is gone."""
    if name == BENCHMARK:
        return "TPC-H"
    try:
        return benchmark(name).title
    except DeltamarkError:
        return name


def row_id(key: str) -> str:
    """Return the id of a record in its report."""
    return f"r-{key}"


def table_id(engine: str, workload: str, logical: int, physical: int, workers: int) -> str:
    """Return the id of the table of the records that a mean is of."""
    words = re.sub(r"[^\w-]+", "-", f"{engine} {workload} {logical}x{physical} w{workers}")
    return f"table-{words}"


def _usual(batchings: Sequence[tuple[int, int]], cells: Sequence[Sequence[Cell | None]]) -> set[tuple[int, int]]:
    """Choose the batchings that are columns: those of most engines first, and of equally many the ends."""
    counts = dict(
        zip(batchings, (sum(cell is not None for cell in of) for of in zip(*cells, strict=True)), strict=True)
    )
    plain = [each for each in batchings if 1 in each] or batchings
    chosen: list[tuple[int, int]] = []
    for count in sorted({counts[each] for each in plain}, reverse=True):
        of_count = [each for each in plain if counts[each] == count]
        room = min(MAX_COLUMNS - len(chosen), len(of_count))
        step = (len(of_count) - 1) / max(room - 1, 1)
        chosen += [of_count[round(number * step)] for number in range(room)]
    return {*chosen}


def _missing(right: int, total: int, others: Sequence[str]) -> str:
    """Say which queries a mean is not over."""
    if right == total or not right:
        return ""
    counts = [f"{number} {word}" for word, number in Counter(others).most_common()]
    return ", ".join([f"{right} of {counted(total, 'query')}", *counts])


def _word(others: Sequence[str]) -> Figure:
    """Return the word in place of a number, the worst of several."""
    worst = sorted(others, key=lambda word: (word != "WRONG", word != "failed", word))
    return (worst[0], None, "") if worst else ("not timed", None, "")


def _figures(values: Sequence[Any], mark: str) -> tuple[Figure | None, ...]:
    """Return the texts of figures. values: each figure, its share, and whether only one engine has it."""
    return tuple(
        None if value is None
        else (metric.show(value) + mark, round(share, 4), "alone" if alone else _distance(share, metric.behind))
        for metric, value, share, alone in zip(METRICS, values[::3], values[1::3], values[2::3], strict=True)
    )  # fmt: skip


BEST = 0.995
"""The share from which a figure is shown as the best one."""


def _distance(share: float, behind: str) -> str:
    if share >= BEST:
        return "best"
    times = 1 / share
    digits = 0 if times >= 10 else 1 if times >= 2 else 2
    return f"{times:,.{digits}f}\u00d7 {behind}"
