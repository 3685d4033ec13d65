"""Records: the parameters of a measurement and its figures, or the reason why it failed.

A record is one JSON object a line. A cell has one record, or one for each row of its suite's table; the records of a
cell have the same `cell`, `key` and time. `cell` is the name of the measured work, and compares across time; `key` also
covers the data, code and versions, and decides whether the cell is done. A change of the format raises VERSION, and
`upgraded` reads the lines of the version before it. A change of how time is taken raises MEASURING.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import Meta, Struct, field, structs

from deltamark.datagen.schema import TIMES_PER_ROUND, scale_factor
from deltamark.datagen.workloads.registry import PLAIN
from deltamark.errors import shortened
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE, GROWTH, THROUGHPUT, Cell
from deltamark.harness.engines.base import EngineInfo, short_name
from deltamark.harness.system.machine import Amount, Count

VERSION = 2
MEASURING = 1

SPREAD = ("p50", "p95", "p99", "max")
"""The names of the latency figures."""

OF_SCALE = ", SF "
"""The text between a benchmark and a scale factor in the name of a dataset."""

PROJECT = "deltamark"
"""The name of this project's repository."""

Parameter = bool | Count | str
Figures = dict[str, Annotated[list[Count | Amount], Meta(min_length=1)]]
"""Seconds, bytes and counts by name; a list has an entry per timed run. An unknown figure is absent."""

Status = Literal["ok", "wrong", "failed", "timeout", "refused"]


class Origin(Struct, frozen=True):
    """The code, versions and session that make a record; its code and versions are part of its key."""

    code: str
    """The digest of this project's code; for an engine of another repository also its commit there."""
    versions: str
    commit: str = ""
    session: str = ""
    repository: str = PROJECT
    """The name of the repository that has the commit."""


Value = TypeVar("Value", str, bool, int, float)


class _Attribute(Generic[Value]):
    """A parameter or a figure of a record as an attribute. default: the value if it is unknown."""

    def __init__(self, default: Value) -> None:
        self.default: Value = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class _Parameter(_Attribute[Value]):
    def __get__(self, record: Record, owner: type) -> Value:
        return cast("Value", record.params.get(self.name, self.default))


class _Benchmark(_Parameter[str]):
    """The benchmark of a record, which rows of tables have in the name of their data.

    Data without a benchmark, such as a graph, count as those of the default one.
    """

    def __get__(self, record: Record, owner: type) -> str:
        if record.suite == GROWTH:
            return record.dataset
        name, scale_factor, _ = str(record.params.get("dataset", "")).rpartition(OF_SCALE)
        return name if scale_factor else super().__get__(record, owner)


class _Number(_Attribute[Value]):
    """The first value of a figure, which is the only one. A figure whose default is whole is a count."""

    def __get__(self, record: Record, owner: type) -> Value:
        return cast("Value", record.figures.get(self.name, [self.default])[0])


class _PerRun(_Attribute[float]):
    """The values of a figure, one for each timed run; none if it is unknown."""

    def __get__(self, record: Record, owner: type) -> list[float]:
        return record.figures.get(self.name, [])


REFUSED = "refused: "
"""The beginning of the note of a refused query."""


class Record(Struct, frozen=True, kw_only=True):
    suite: str = THROUGHPUT
    status: Status = "ok"
    problem: str = ""
    limit: Amount = 0.0
    """Seconds that a run may take (TPC-H), or the whole cell (other suites)."""
    requested_runs: Count = field(name="asked", default=0)
    """Slow cells have fewer timed runs."""
    verified: str = ""
    """The check that the answer passed: `oracle` (DuckDB), `digest` (equal to a change stream that vouches for others),
    the name of another algorithm, or empty."""
    digest: str = ""
    """The digest of the change stream."""
    control: Amount = 0.0
    """Seconds of the fixed work of harness/system/clock.py, just before the cell."""
    elapsed: Amount = field(name="took", default=0.0)
    """Seconds of the whole cell, warm-up and checks included."""
    data: str = ""
    code: str = ""
    versions: str = ""
    commit: str = ""
    repository: str = PROJECT
    """The name of the git repository that has the commit."""
    session: str = ""
    finished_at: str = field(name="at", default="")
    version: Count = VERSION
    measuring: Count = MEASURING
    cell: str = ""
    key: str = ""
    params: dict[str, Parameter] = {}
    figures: Figures = {}
    note: str = ""
    """A text to show beside the figures."""

    benchmark = _Benchmark(DEFAULT)
    # The parameters of TPC-H. An external engine has those of EngineInfo, too, such as `engine_name`.
    query = _Parameter("")
    sf = _Parameter("")
    variant = _Parameter("")
    is_default = _Parameter(default=True)
    """Whether the variant is the query's default."""
    workload = _Parameter("insert")
    engine = _Parameter(DEFAULT_ENGINE)
    logical = _Parameter(1)
    physical = _Parameter(1)
    workers = _Parameter(1)
    sample = _Parameter(0)
    """The largest number of timed batches, which are spread over the stream; 0 for all."""
    # The parameters of the other suites, with `dataset`: a graph, or TPC-H at a scale factor.
    table = _Parameter("")
    row = _Parameter("")

    # The figures of TPC-H.
    seconds = _PerRun(0.0)
    cpu = _PerRun(0.0)
    """The CPU time of the harness in the clock, and of all processes that it has started, also outside of it."""
    cut = _PerRun(0.0)
    """The time for cutting batches, which `seconds` does not include."""
    outside = _PerRun(0.0)
    """The time by the clock of the harness, if `seconds` are by the clock of the engine."""
    untimed = _PerRun(0.0)
    """The time outside the clock for which the harness waited until an external engine had its input ready."""
    timed_cpu = _PerRun(0.0)
    untimed_cpu = _PerRun(0.0)
    """The CPU time of the processes of an external engine in the clock, and outside of it."""
    answer_cpu = _PerRun(0.0)
    """The CPU time of the processes of an external engine from the last batch until it has handed over its answer."""
    compared = _PerRun(0)
    """The logical times at which the answers of this cell equal DuckDB's; empty in records of older code."""
    trace_rows = _PerRun(0)
    trace_seconds = _PerRun(0.0)
    """Per batch of the fastest run: the number of rows fed so far, and its latency. Empty if there are many batches."""
    requests = _Number(0)
    """The number of requests in the clock, which each have one batch or several; 0 unless the engine is external."""
    recomputed = _Number(0)
    """1 if the engine ran this query again after each batch, although it maintains others."""
    answer_rows = _Number(0)
    """The number of rows of this answer."""
    sampled = _Number(0)
    """1 if only a sample of the batches was timed."""
    tuples = _Number(0)
    changes = _Number(0)
    batches = _Number(0)
    state_rows = _Number(0)
    """0 for engines that do not report it."""
    state_bytes = _Number(0)
    peak_bytes = _Number(0)
    oracle_seconds = _Number(0.0)
    """The time of DuckDB for the query over all rows with one thread; 0 if it was not measured for this cell."""

    def check(self) -> None:
        """Raise a ValueError if a value is not possible, or if values contradict each other."""
        if self.finished_at:
            _utc(self.finished_at)
        for name, each in _ATTRIBUTES.items():
            if isinstance(each, _Parameter) and type(self.params.get(name, each.default)) is not type(each.default):
                raise ValueError(f"the parameter `{name}` has the wrong type: {shortened(repr(self.params[name]))}")
        if self.suite != THROUGHPUT:
            return
        for name in {"query", "sf"} - self.params.keys():
            raise ValueError(f"the parameter `{name}` is missing")
        for name, each in _ATTRIBUTES.items():
            values = self.figures.get(name, [])
            if type(each.default) is int and not all(isinstance(value, int) for value in values):
                raise ValueError(f"the figure `{name}` is not a count: {shortened(repr(values))}")
        _ = self.external  # refuses another type
        scale_factor(self.sf)
        counted = self.tuples and self.batches
        if self.has_numbers and not (min(self.seconds) > 0 and counted and {*SPREAD} <= self.figures.keys()):
            raise ValueError(f"numbers need seconds, tuples and batches above 0, and latency with {', '.join(SPREAD)}")

    @property
    def finished_s(self) -> float:
        """The end of the measurement, in seconds since 1970; 0 if the record has none."""
        return _utc(self.finished_at).timestamp() if self.finished_at else 0.0

    @property
    def is_bad(self) -> bool:
        return self.status in ("wrong", "failed")

    @property
    def has_numbers(self) -> bool:
        return self.status == "ok" and bool(self.seconds)

    @property
    def vouches(self) -> bool:
        """Whether the change stream may be the reference of others: it was compared at times inside rounds.

        The end of a batch is the end of a round, so no comparison at ends of rounds can show that a change is at its
        logical time rather than at the end of its batch.
        """
        inside = (time for time in self.compared if time % TIMES_PER_ROUND != TIMES_PER_ROUND - 1)
        return self.status == "ok" and bool(self.digest) and any(inside)

    @property
    def external(self) -> EngineInfo | None:
        """The description of an external engine; None for a built-in one."""
        said = {
            name.removeprefix("engine_"): value for name, value in self.params.items() if name.startswith("engine_")
        }
        return msgspec.convert(said, EngineInfo) if said else None

    def least(self, figure: str) -> float:
        return min(self.figures[figure])

    @property
    def best(self) -> float:
        return self.least("seconds")

    @property
    def rate(self) -> float:
        """Tuples per second in the fastest run."""
        return self.tuples / self.best

    @property
    def latency(self) -> dict[str, float]:
        """The latency of a batch in the fastest run, by the names of SPREAD."""
        return {name: self.least(name) for name in SPREAD if name in self.figures}

    @property
    def fully_timed(self) -> bool:
        return not self.sampled

    def of_fastest(self, figures: Sequence[float]) -> float | None:
        """Return the figure of the fastest run; None if there is not one for each run."""
        return figures[self.seconds.index(self.best)] if len(figures) == len(self.seconds) else None

    @property
    def dataset(self) -> str:
        """The name of the measured data; tables are made per dataset."""
        if self.suite == THROUGHPUT:
            return dataset_name(self.benchmark, self.sf)
        return str(self.params.get("dataset", ""))

    @property
    def label(self) -> str:
        """The name of the cell in progress lines."""
        if self.suite != THROUGHPUT:
            return self.cell
        variant = "" if self.is_default else f" {self.variant}"
        work = "" if self.is_plain else f" {self.workload}"
        workers = "" if self.workers == 1 else f" -w{self.workers}"
        engine = "" if self.engine == DEFAULT_ENGINE else f" {short_name(self.engine)}"
        return f"{self.query}{variant}{work} {self.logical}x{self.physical}{workers}{engine}"

    @property
    def is_plain(self) -> bool:
        """Whether rows only arrive, or the changes are those of the data."""
        return self.workload in PLAIN

    @property
    def group(self) -> str:
        """The name of the cells that a plan counts together."""
        if self.suite != THROUGHPUT:
            return self.cell
        return f"{self.workload} {self.logical}x{self.physical} -w{self.workers} {short_name(self.engine)}"

    @property
    def estimate_groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of cells with similar durations, the most similar first."""
        return (
            ((self.engine, self.dataset, self.query), (self.engine, self.dataset)) if self.suite == THROUGHPUT else ()
        )

    @property
    def default_estimate(self) -> float | None:
        """The assumed duration in seconds if no similar cell was measured; None if a guess would be worthless."""
        return 0.3 + 1.5 * float(self.sf) if self.suite == THROUGHPUT else None  # about a cell on two cores of 2020


_ATTRIBUTES = {name: each for name, each in vars(Record).items() if isinstance(each, _Attribute)}


def _utc(text: str) -> datetime:
    """Read an ISO time, which is in UTC unless it names another zone."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"`at` is not an ISO time: {shortened(text)}") from None


def dataset_name(benchmark: str, sf: str) -> str:
    """Return the name of the data of a benchmark at a scale factor."""
    return f"SF {sf}" if benchmark == DEFAULT else f"{benchmark}{OF_SCALE}{sf}"


def blank_record(cell: Cell, origin: Origin, external: EngineInfo | None = None) -> Record:
    """Return the record of a cell before it is measured. external: describes an external engine."""
    if cell.goal == THROUGHPUT:
        return _blank_throughput(cell, origin, external)
    name = " ".join(filter(None, (cell.goal, cell.dataset, cell.table, cell.part)))
    params: dict[str, Parameter] = {"dataset": cell.dataset, "table": cell.table, "row": cell.part or cell.table}
    return Record(
        suite=cell.goal, params=params, cell=name, data=cell.data, key=key_of(name, cell.data, origin),
        **structs.asdict(origin),
    )  # fmt: skip


def _blank_throughput(cell: Cell, origin: Origin, external: EngineInfo | None) -> Record:
    of_cell = cell.definition
    variant = cell.variant or of_cell.default
    name = _cell_name(cell, variant)
    more = [*([external.name, external.digest] if external else []), *filter(None, [cell.digest])]
    params: dict[str, Parameter] = {
        "query": cell.query, "sf": cell.sf, "variant": variant, "is_default": variant == of_cell.default,
        "workload": cell.workload, "engine": cell.engine, "logical": cell.logical, "physical": cell.physical,
        "workers": cell.workers, "sample": cell.sample, **(external.parameters if external else {}),
    }  # fmt: skip
    if cell.benchmark != DEFAULT:
        params["benchmark"] = cell.benchmark
    return Record(
        cell=name, data=cell.data, key=key_of(name, cell.data, origin, *more), params=params, **structs.asdict(origin)
    )


def _cell_name(cell: Cell, variant: str) -> str:
    words = [
        cell.benchmark, cell.workload, cell.query, variant, f"sf{cell.sf}", cell.engine,
        f"{cell.logical}x{cell.physical}", f"w{cell.workers}", *([f"on {cell.master}"] if cell.master else []),
        *([f"sample{cell.sample}"] if cell.sample else []),
        *([f"seed{cell.seed}"] if cell.seed is not None else []), *(f"{name}={value}" for name, value in cell.given),
    ]  # fmt: skip
    return " ".join(words)


def key_of(cell: str, data: str, origin: Origin, *more: str) -> str:
    """Return a digest of the name of a cell and of everything that its numbers depend on."""
    words = (cell, data, origin.code, origin.versions, str(MEASURING), *more)
    return hashlib.blake2b("\n".join(words).encode(), digest_size=8).hexdigest()


def latest(records: Iterable[Record]) -> list[Record]:
    """Return the records of the last measurement of each cell, in the order of measurement."""
    last: dict[str, list[Record]] = {}
    for (cell, _), of_cell in groupby(records, key=lambda record: (record.cell, record.finished_at)):
        last.pop(cell, None)
        last[cell] = list(of_cell)
    return [record for of_cell in last.values() for record in of_cell]


def of_queries(records: Iterable[Record], sf: str = "", benchmark: str = DEFAULT) -> list[Record]:
    """Return the records of the queries of a benchmark, at a scale factor unless it is empty."""
    return [
        each for each in records if each.suite == THROUGHPUT and each.benchmark == benchmark and sf in ("", each.sf)
    ]


def of_suites(records: Iterable[Record], benchmark: str = DEFAULT) -> list[Record]:
    """Return the records of the suites other than that of queries, over the data of a benchmark."""
    return [each for each in records if each.suite != THROUGHPUT and each.benchmark == benchmark]


class _Versioned(Struct):
    version: int | None = None


def upgraded(line: bytes) -> Record | None:
    """Read a line of this version or of version 1; return None for others, raise a ValueError for a bad line."""
    version = msgspec.json.decode(line, type=_Versioned).version
    if version not in (1, VERSION):
        return None
    content = msgspec.json.decode(line, type=dict[str, Any])
    try:
        record = msgspec.convert(_from_version_1(content) if version == 1 else content, Record)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a value is missing or has the wrong type: {error!r}") from None
    record.check()
    return record


def _from_version_1(old: dict[str, Any]) -> dict[str, Any]:
    """Convert a row of `findings.jsonl`, or a record of a query, whose parameters and figures were fields."""
    new = {**old, "version": VERSION}
    if "query" not in old:
        params = {"dataset": old.get("of", ""), "table": old.get("table", ""), "row": old["row"]}
        return {**new, "params": params, "figures": old.get("figures", {}), "note": old.get("said", "")}
    attributes = _ATTRIBUTES.items()
    params = {name: old[name] for name, each in attributes if isinstance(each, _Parameter) and name in old}
    params["is_default"] = old.get("default", True)
    external = msgspec.convert(old.get("external"), EngineInfo | None)
    old = {**old, "oracle_seconds": old.get("once", 0), "sampled": 1 - old.get("whole", True)}
    old["recomputed"] = 0 + old.get("recomputed", False)
    figures = {name: old.get(name, []) for name, each in attributes if isinstance(each, _PerRun)}
    figures |= {name: [old[name]] for name, each in attributes if isinstance(each, _Number) and old.get(name)}
    figures |= {name: [seconds] for name, seconds in old.get("latency", {}).items()}
    trace = old.get("trace", [])
    figures |= {"trace_rows": [rows for rows, _ in trace], "trace_seconds": [seconds for _, seconds in trace]}
    known = {name: values for name, values in figures.items() if values != []}
    return {**new, "params": {**params, **(external.parameters if external else {})}, "figures": known}
