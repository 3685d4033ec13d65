"""Records: the measurement of one cell of the benchmark, or the reason why it failed. One JSON object a line.

`cell` is the name of the measured work, and compares across time; `key` also covers the data, code and versions, and
decides whether the cell is done. A change of a field's meaning raises VERSION, a change of how time is taken raises
MEASURING. Some fields have another name in JSON, so that records of older commits stay readable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, Self, TypeVar

import msgspec
from msgspec import Meta, Struct, field, structs

from deltamark.datagen.feed import TIMES_PER_ROUND
from deltamark.datagen.schema import scale_factor
from deltamark.errors import shortened
from deltamark.harness.engines.base import Output, short_name
from deltamark.harness.measure.cell import DEFAULT_ENGINE, Cell
from deltamark.queries.catalogue import query

VERSION = 1
MEASURING = 1

SPREAD = ("p50", "p95", "p99", "max")
"""The names of the latency figures."""

TPCH = "tpch"

PROJECT = "deltamark"
"""The name of this project's repository."""

MAX_NUMBER = (1 << 63) - 1

Count = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Amount = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]
"""Seconds, or another number from 0 up. The limits are checked when a record is read."""

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


class Record(Struct, frozen=True, kw_only=True):
    """The common part of the records of all suites: the cell, its outcome, and the code and data behind it."""

    FILE: ClassVar[str]

    suite: str = TPCH
    status: Status = "ok"
    problem: str = ""
    limit: Amount = 0.0
    """Seconds that a run may take (TPC-H), or the whole cell (other suites)."""
    requested_runs: Count = field(name="asked", default=0)
    """Slow cells have fewer timed runs."""
    verified: str = ""
    """The check that the answer passed: `oracle` (DuckDB), `digest` (equal to a change stream that vouches for others),
    the name of another algorithm, or empty."""
    control: Amount = 0.0
    """Seconds of the fixed work of harness/measure/control_work.py, just before the cell."""
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
    cell: str = ""
    key: str = ""

    @property
    def is_bad(self) -> bool:
        return self.status in ("wrong", "failed")

    @property
    def dataset(self) -> str:
        """The name of the measured data; tables are made per dataset."""
        return ""

    @property
    def label(self) -> str:
        """The name of the cell in progress lines."""
        return self.cell

    @property
    def group(self) -> str:
        """The name of the cells that a plan counts together."""
        return self.cell

    @property
    def estimate_groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of cells with similar durations, the most similar first."""
        return ()

    @property
    def default_estimate(self) -> float | None:
        """The assumed duration in seconds if no similar cell was measured; None if a guess would be worthless."""
        return None

    @property
    def lines(self) -> list[bytes]:
        """The JSON objects of the record."""
        return [msgspec.json.encode(self)]

    @classmethod
    def from_json(cls, line: bytes) -> Self:
        """Read a line; raise a ValueError unless it is valid."""
        record = msgspec.json.decode(line, type=cls)
        record.check()
        return record

    @property
    def finished_s(self) -> float:
        """The end of the measurement, in seconds since 1970; 0 if the record has none."""
        return _utc(self.finished_at).timestamp() if self.finished_at else 0.0

    def check(self) -> None:
        """Raise a ValueError if a value is not possible, or if values contradict each other."""
        if self.finished_at:
            _utc(self.finished_at)


def _utc(text: str) -> datetime:
    """Read an ISO time, which is in UTC unless it names another zone."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"`at` is not an ISO time: {shortened(text)}") from None


class EngineInfo(Struct, frozen=True):
    """The description that an external engine gave of itself when it was measured."""

    name: str
    """Its name and version."""
    digest: str
    """The digest of its program."""
    output: Output
    maintains: bool = True
    session: bool = False


class QueryRecord(Record, frozen=True, kw_only=True):
    """The measurement of one query over one stream. Times are in seconds; lists have an entry per timed run."""

    FILE = "records.jsonl"

    query: str
    sf: str
    variant: str = ""
    is_default: bool = field(name="default", default=True)
    """Whether the variant is the query's default."""
    workload: str = "insert"
    engine: str = DEFAULT_ENGINE
    external: EngineInfo | None = None
    recomputed: bool = False
    """Whether the engine ran this query again after each batch, although it maintains others."""
    logical: Count = 1
    physical: Count = 1
    workers: Count = 1
    sample: Count = 0
    """The largest number of timed batches, which are spread over the stream; 0 for all."""
    fully_timed: bool = field(name="whole", default=True)
    seconds: list[Amount] = []
    cpu: list[Amount] = []
    """The CPU time of the harness in the clock, and of all processes that it has started, also outside of it."""
    cut: list[Amount] = []
    """The time for cutting batches, which `seconds` does not include."""
    outside: list[Amount] = []
    """The time by the clock of the harness, if `seconds` are by the clock of the engine."""
    untimed: list[Amount] = []
    """The time outside the clock for which the harness waited until an external engine had its input ready."""
    timed_cpu: list[Amount] = []
    untimed_cpu: list[Amount] = []
    """The CPU time of the processes of an external engine in the clock, and outside of it."""
    requests: Count = 0
    """The number of requests in the clock, which each have one batch or several; 0 unless the engine is external."""
    tuples: Count = 0
    changes: Count = 0
    batches: Count = 0
    latency: dict[str, Amount] = {}
    """The latency of a batch in the fastest run, by the names of SPREAD."""
    trace: list[tuple[Count, Amount]] = []
    """Per batch of the fastest run: the number of rows fed so far, and its latency. Empty if there are many batches."""
    state_rows: Count = 0
    """0 for engines that do not report it."""
    state_bytes: Count = 0
    peak_bytes: Count = 0
    digest: str = ""
    compared: list[Count] = []
    """The logical times at which the answers of this cell equal DuckDB's; empty in records of older code."""
    oracle_seconds: Amount = field(name="once", default=0.0)
    """The time of DuckDB for the query over all rows with one thread; 0 if it was not measured for this cell."""
    measuring: Count = MEASURING

    def check(self) -> None:
        super().check()
        scale_factor(self.sf)
        counted = self.tuples and self.batches
        if self.has_numbers and not (min(self.seconds) > 0 and counted and {*SPREAD} <= {*self.latency}):
            raise ValueError(f"numbers need seconds, tuples and batches above 0, and latency with {', '.join(SPREAD)}")

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
    def best(self) -> float:
        return min(self.seconds)

    @property
    def rate(self) -> float:
        """Tuples per second in the fastest run."""
        return self.tuples / self.best

    def of_fastest(self, figures: Sequence[float]) -> float | None:
        """Return the figure of the fastest run; None if there is not one for each run."""
        return figures[self.seconds.index(self.best)] if len(figures) == len(self.seconds) else None

    @property
    def batch_rounds(self) -> int:
        """Rounds in a physical batch."""
        return self.logical * self.physical

    @property
    def dataset(self) -> str:
        return f"SF {self.sf}"

    @property
    def label(self) -> str:
        variant = "" if self.is_default else f" {self.variant}"
        work = "" if self.workload == "insert" else f" {self.workload}"
        workers = "" if self.workers == 1 else f" -w{self.workers}"
        engine = "" if self.engine == DEFAULT_ENGINE else f" {short_name(self.engine)}"
        return f"{self.query}{variant}{work} {self.logical}x{self.physical}{workers}{engine}"

    @property
    def group(self) -> str:
        return f"{self.workload} {self.logical}x{self.physical} -w{self.workers} {short_name(self.engine)}"

    @property
    def estimate_groups(self) -> tuple[tuple[str, ...], ...]:
        return (self.engine, self.sf, self.query), (self.engine, self.sf)

    @property
    def default_estimate(self) -> float:
        return 0.3 + 1.5 * float(self.sf)  # about the time of a cell on two cores of 2020


def blank_query_record(
    cell: Cell, sample: int, *, data: str, origin: Origin, external: EngineInfo | None = None
) -> QueryRecord:
    """Return the record of a cell before it is measured."""
    of_cell = query(cell.query)
    variant = cell.variant or of_cell.default
    name = _cell_name(cell, variant, sample)
    more = [external.name, external.digest] if external else []
    return QueryRecord(
        query=cell.query, sf=cell.sf, variant=variant, is_default=variant == of_cell.default, workload=cell.workload,
        engine=cell.engine, logical=cell.logical, physical=cell.physical, workers=cell.workers, sample=sample,
        cell=name, data=data, external=external, key=key_of(name, data, origin, *more), **structs.asdict(origin),
    )  # fmt: skip


def _cell_name(cell: Cell, variant: str, sample: int) -> str:
    words = [
        TPCH, cell.workload, cell.query, variant, f"sf{cell.sf}", cell.engine, f"{cell.logical}x{cell.physical}",
        f"w{cell.workers}", *([f"on {cell.master}"] if cell.master else []), *([f"sample{sample}"] if sample else []),
        *([f"seed{cell.seed}"] if cell.seed is not None else []), *(f"{name}={value}" for name, value in cell.given),
    ]  # fmt: skip
    return " ".join(words)


def key_of(cell: str, data: str, origin: Origin, *more: str) -> str:
    """Return a digest of the name of a cell and of everything that its numbers depend on."""
    words = (cell, data, origin.code, origin.versions, str(MEASURING), *more)
    return hashlib.blake2b("\n".join(words).encode(), digest_size=8).hexdigest()


AnyRecord = TypeVar("AnyRecord", bound=Record)


def latest(records: Iterable[AnyRecord]) -> dict[str, AnyRecord]:
    """Return the last record of each cell, in the order of measurement."""
    last: dict[str, AnyRecord] = {}
    for record in records:
        last.pop(record.cell, None)
        last[record.cell] = record
    return last


def of_queries(records: Iterable[Record], sf: str) -> list[QueryRecord]:
    """Return the records of TPC-H at a scale factor."""
    return [record for record in records if isinstance(record, QueryRecord) and record.sf == sf]


class _Versioned(Struct):
    version: int | None = None


def from_line(kind: type[AnyRecord], line: bytes) -> AnyRecord | None:
    """Read a record; return None for another version, and raise a ValueError unless it is valid."""
    return kind.from_json(line) if msgspec.json.decode(line, type=_Versioned).version == VERSION else None
