"""Records: the measurement of one cell of the benchmark, or the reason why it failed. One JSON object a line.

`cell` names what was measured and compares across time; `key` also covers the data, code and versions that measured it,
and decides whether the cell is done. A change of a field's meaning raises VERSION, a change of how time is taken raises
MEASURING. Some fields have another name in JSON, so that records of older commits stay readable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, TypeVar

from deltamark.datagen.schema import scale_factor
from deltamark.harness.measure.cell import Cell
from deltamark.harness.results.json_types import check_fields, json_name, stored_as
from deltamark.queries.catalogue import query

VERSION = 1
MEASURING = 1

SPREAD = ("p50", "p95", "p99", "max")
"""The names of the latency figures."""

TPCH = "tpch"

Status = Literal["ok", "wrong", "failed", "timeout"]


@dataclass(frozen=True)
class Origin:
    """The code, versions and session that make a record; all but commit and session are part of its key."""

    code: str
    versions: str
    commit: str = ""
    session: str = ""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The part that the records of all suites share: the cell, its outcome, and what measured it."""

    FILE: ClassVar[str]

    suite: str = TPCH
    status: Status = "ok"
    problem: str = ""
    limit: float = 0.0
    """Seconds that a run may take (TPC-H), or the whole cell (other suites)."""
    requested_runs: int = stored_as("asked", 0)
    """Slow cells have fewer timed runs."""
    verified: str = ""
    """The check that the answer passed: `oracle` (DuckDB), `digest` (equal to an oracle-checked change stream), the
    name of another algorithm, or empty."""
    control: float = 0.0
    """Seconds of the fixed work of harness/measure/control_work.py, just before the cell."""
    elapsed: float = stored_as("took", 0.0)
    """Seconds of the whole cell, warm-up and checks included."""
    data: str = ""
    code: str = ""
    versions: str = ""
    commit: str = ""
    session: str = ""
    finished_at: str = stored_as("at", "")
    version: int = VERSION
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
    def lines(self) -> list[dict[str, Any]]:
        """The JSON objects of the record."""
        return [{json_name(each): getattr(self, each.name) for each in fields(self)}]

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Self:
        """Read a line; raise a ValueError unless it is valid."""
        record = cls(**check_fields(raw, cls))
        record.check()
        return record

    def check(self) -> None:
        """Raise a ValueError if the values contradict each other."""


@dataclass(frozen=True)
class QueryRecord(Record):
    """The measurement of one query over one stream. Times are in seconds; lists have an entry per timed run."""

    FILE = "records.jsonl"

    query: str
    sf: str
    variant: str = ""
    is_default: bool = stored_as("default", True)  # noqa: FBT003
    """Whether the variant is the query's default."""
    workload: str = "insert"
    engine: str = "embedded"
    logical: int = 1
    physical: int = 1
    workers: int = 1
    sample: int = 0
    """The largest number of timed batches, which are spread over the stream; 0 for all."""
    fully_timed: bool = stored_as("whole", True)  # noqa: FBT003
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    """The time for cutting batches, which `seconds` does not include."""
    tuples: int = 0
    changes: int = 0
    batches: int = 0
    latency: dict[str, float] = field(default_factory=dict)
    """The latency of a batch in the fastest run, by the names of SPREAD."""
    trace: list[tuple[int, float]] = field(default_factory=list)
    """Per batch of the fastest run: the number of rows fed so far, and its latency. Empty if there are many batches."""
    state_rows: int = 0
    """0 for engines that do not report it."""
    state_bytes: int = 0
    peak_bytes: int = 0
    digest: str = ""
    oracle_seconds: float = stored_as("once", 0.0)
    """The time of DuckDB for the query over all rows with one thread; 0 if it was not measured for this cell."""
    measuring: int = MEASURING

    def check(self) -> None:
        query(self.query)
        scale_factor(self.sf)
        if self.has_numbers and not (min(self.seconds) > 0 and self.batches and {*SPREAD} <= {*self.latency}):
            raise ValueError(f"numbers need seconds and batches above 0, and latency with {', '.join(SPREAD)}")

    @property
    def has_numbers(self) -> bool:
        return self.status == "ok" and bool(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def rate(self) -> float:
        """Tuples per second in the fastest run."""
        return self.tuples / self.best

    @property
    def batch_rows(self) -> int:
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
        engine = "" if self.engine == "embedded" else f" {self.engine}"
        return f"{self.query}{variant}{work} {self.logical}x{self.physical}{workers}{engine}"

    @property
    def group(self) -> str:
        return f"{self.workload} {self.logical}x{self.physical} -w{self.workers} {self.engine}"

    @property
    def estimate_groups(self) -> tuple[tuple[str, ...], ...]:
        return (self.engine, self.sf, self.query), (self.engine, self.sf)

    @property
    def default_estimate(self) -> float:
        return 0.3 + 1.5 * float(self.sf)  # about the time of a cell on two cores of 2020


def blank_query_record(cell: Cell, sample: int, *, data: str, origin: Origin) -> QueryRecord:
    """Return the record of a cell before it is measured."""
    of_cell = query(cell.query)
    variant = cell.variant or of_cell.default
    name = _cell_name(cell, variant, sample)
    return QueryRecord(
        query=cell.query, sf=cell.sf, variant=variant, is_default=variant == of_cell.default, workload=cell.workload,
        engine=cell.engine, logical=cell.logical, physical=cell.physical, workers=cell.workers, sample=sample,
        cell=name, data=data, key=key_of(name, data, origin), **asdict(origin),
    )  # fmt: skip


def _cell_name(cell: Cell, variant: str, sample: int) -> str:
    words = [
        TPCH, cell.workload, cell.query, variant, f"sf{cell.sf}", cell.engine, f"{cell.logical}x{cell.physical}",
        f"w{cell.workers}", *([f"on {cell.master}"] if cell.master else []), *([f"sample{sample}"] if sample else []),
        *([f"seed{cell.seed}"] if cell.seed is not None else []), *(f"{name}={value}" for name, value in cell.given),
    ]  # fmt: skip
    return " ".join(words)


def key_of(cell: str, data: str, origin: Origin) -> str:
    """Return a digest of the name of a cell and of everything that its numbers depend on."""
    words = (cell, data, origin.code, origin.versions, str(MEASURING))
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


def to_lines(record: Record) -> str:
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in record.lines)


def parsed(kind: type[AnyRecord], raw: Any) -> AnyRecord | None:
    """Read a record; return None for another version, and raise a ValueError unless it is valid."""
    if not isinstance(raw, dict):
        raise ValueError(f"{type(raw).__name__} is not an object")  # noqa: TRY004 (one class for all faults)
    return kind.from_json(raw) if raw.get("version") == VERSION else None
