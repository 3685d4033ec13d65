"""A record: what was measured of a cell, or why it could not be. One JSON object a line; harness/results/finding.py is
another.

`cell` says what was measured and compares across time; `key` also says by what (data, code, versions), and decides what
is already done. Whatever changes a field's meaning raises VERSION, whatever changes how time is taken raises MEASURING.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar

from deltamark.datagen.schema import scale_factor
from deltamark.harness.measure.cell import Cell
from deltamark.harness.results.json_types import check_fields
from deltamark.queries.catalogue import query

VERSION = 1
MEASURING = 1

SPREAD = ("p50", "p95", "p99", "max")
"""The names of the latency figures."""

Status = Literal["ok", "wrong", "failed", "timeout"]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What each line says, whatever was measured: of which cell, how that ended, and by what it was made."""

    suite: str = "tpch"
    status: Status = "ok"
    problem: str = ""
    limit: float = 0.0
    """Seconds: what a run may take, or all of a cell of another suite."""
    asked: int = 0
    """How many timed runs were asked for; slow cells have fewer."""
    verified: str = ""
    """By whom: `oracle` (DuckDB's answers), `digest` (the stream of a cell so checked), another way to it; or none."""
    control: float = 0.0
    """What the fixed work of harness/measure/control_work.py took, just before."""
    took: float = 0.0
    """What the cell took in all, with its warm-up and checks."""
    data: str = ""
    code: str = ""
    versions: str = ""
    commit: str = ""
    session: str = ""
    at: str = ""
    version: int = VERSION
    cell: str = ""
    key: str = ""

    def check(self) -> None:
        """Raise a ValueError if its values do not belong together."""

    @property
    def is_bad(self) -> bool:
        return self.status in ("wrong", "failed")


@dataclass(frozen=True)
class Record(Result):
    """Times in seconds. Lists have an entry a timed run."""

    query: str
    sf: str
    variant: str = ""
    default: bool = True
    """Is this the query's default variant?"""
    workload: str = "insert"
    engine: str = "embedded"
    logical: int = 1
    physical: int = 1
    workers: int = 1
    sample: int = 0
    """At most so many batches are timed, spread over the stream; 0: all."""
    whole: bool = True
    """Were all batches timed?"""
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    cut: list[float] = field(default_factory=list)
    """What cutting the batches took, beside `seconds`."""
    tuples: int = 0
    changes: int = 0
    batches: int = 0
    latency: dict[str, float] = field(default_factory=dict)
    """What SPREAD names of a batch, in the fastest run."""
    trace: list[tuple[int, float]] = field(default_factory=list)
    """Of the fastest run's batches, if they are few: how many rows have come by then, and its seconds."""
    state_rows: int = 0
    """0 of engines that do not say."""
    state_bytes: int = 0
    peak_bytes: int = 0
    digest: str = ""
    once: float = 0.0
    """What DuckDB takes for the query once, over all rows, with one thread; 0 where it was not asked that."""
    measuring: int = MEASURING

    def check(self) -> None:
        query(self.query)
        scale_factor(self.sf)
        if self.shown and not (min(self.seconds) > 0 and self.batches and {*SPREAD} <= {*self.latency}):
            raise ValueError(f"numbers need seconds and batches above 0, and latency with {', '.join(SPREAD)}")

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def rate(self) -> float:
        """Tuples a second, in the fastest run."""
        return self.tuples / self.best

    @property
    def batch_rows(self) -> int:
        """Rounds of a physical batch."""
        return self.logical * self.physical

    @property
    def shown(self) -> bool:
        """May its numbers be shown?"""
        return self.status == "ok" and bool(self.seconds)


Kept = TypeVar("Kept", bound=Result)


@dataclass(frozen=True)
class Origin:
    """By what a record is made: it has a part in every key."""

    data: str
    code: str
    versions: str
    commit: str = ""
    session: str = ""

    def made(self, record: Record) -> bool:
        """Is a record made by the same?"""
        return (record.data, record.code, record.versions, record.measuring) == (
            self.data, self.code, self.versions, MEASURING,
        )  # fmt: skip


def blank(cell: Cell, sample: int, origin: Origin) -> Record:
    """Return the record of a cell before it is measured."""
    asked = query(cell.query)
    variant = cell.variant or asked.default
    name = cell_name(cell, variant, sample)
    return Record(
        query=cell.query, sf=cell.sf, variant=variant, default=variant == asked.default, workload=cell.workload,
        engine=cell.engine, logical=cell.logical, physical=cell.physical, workers=cell.workers, sample=sample,
        cell=name, key=key_of(name, origin), **asdict(origin),
    )  # fmt: skip


def cell_name(cell: Cell, variant: str, sample: int) -> str:
    """Name a cell, as it is named across versions of everything."""
    words = [
        "tpch", cell.workload, cell.query, variant, f"sf{cell.sf}", cell.engine, f"{cell.logical}x{cell.physical}",
        f"w{cell.workers}", *([f"on {cell.master}"] if cell.master else []), *([f"sample{sample}"] if sample else []),
        *([f"seed{cell.seed}"] if cell.seed is not None else []), *(f"{name}={value}" for name, value in cell.given),
    ]  # fmt: skip
    return " ".join(words)


def key_of(name: str, origin: Origin) -> str:
    """Name a cell together with what measures it."""
    words = (name, origin.data, origin.code, origin.versions, str(MEASURING))
    return hashlib.blake2b("\n".join(words).encode(), digest_size=8).hexdigest()


def to_line(result: Result) -> str:
    return json.dumps(asdict(result), separators=(",", ":")) + "\n"


def from_json(kind: type[Kept], raw: Any) -> Kept | None:
    """Read a result; None if it is of another version; raise a ValueError if it is none."""
    if not isinstance(raw, dict):
        raise ValueError(f"{type(raw).__name__} is no object")  # noqa: TRY004 (one class for all that can be wrong)
    if raw.get("version") != VERSION:
        return None
    made = kind(**check_fields(raw, kind))
    made.check()
    return made
