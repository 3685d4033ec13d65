"""Messages between the process that plans measurements and the measurement server, each a line of JSON.

    {"do": "warm"}                                                        ->  {"status": "ok", "measuring": 1}
    {"do": "ask", "cell": {...}, "rounds": [500, 1000],
     "moments": [[1, 4001]], "limit": 600}                                ->  {"status": "ok", "once": 0.1}
    {"do": "cell", "cell": {...}, "sample": 0, "runs": 3, "limit": 600,
     "compare": [500, 1000], "times": [4001], "checked": true,
     "beside": {...}}                                                     ->  the figures of a record
    {"do": "sample", "cell": {...}, "limit": 600}                         ->  {"status": "ok", "time": ..., ...}

The gate (harness/compare/) also talks to servers of older commits. Therefore fields may only be added, with defaults; a
change of the meaning of a field raises MEASURING (harness/results/record.py). Unknown fields are ignored.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct, structs

from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.measure.cell import AnyCell
from deltamark.harness.results.record import Figures, Record, Status

CellT = TypeVar("CellT", bound=AnyCell)


class WarmRequest(Struct, frozen=True, omit_defaults=True, tag_field="do", tag="warm"):
    """Compile the kernels, and prepare the state that all cells share. benchmark: that of the cells."""

    benchmark: str = DEFAULT


class OracleRequest(Struct, Generic[CellT], frozen=True, tag_field="do", tag="ask"):
    """Compute the oracle's answers of a cell, or the oracle's count of a motif."""

    cell: CellT
    limit: float
    """Seconds."""
    rounds: tuple[int, ...] = ()
    """The numbers of rounds after which answers are wanted."""
    moments: tuple[tuple[int, int], ...] = ()
    """Other moments: L, and a logical time."""


class CellRequest(Struct, Generic[CellT], frozen=True, tag_field="do", tag="cell"):
    """Measure a cell."""

    cell: CellT
    sample: int
    """The number of batches to time at most, spread over the stream; 0: all."""
    runs: int
    limit: float
    """Seconds that a run may take."""
    compare: tuple[int, ...]
    """The numbers of rounds after which answers are compared with those of an earlier `OracleRequest`."""
    times: tuple[int, ...] = ()
    """The logical times inside rounds at which a change stream is compared, too."""
    checked: bool = True
    beside: CellRequest[CellT] | None = None
    """The next request, whose check may run at the same time as the check of this one."""


class SampleRequest(Struct, Generic[CellT], frozen=True, tag_field="do", tag="sample"):
    """Time a cell, and check nothing."""

    cell: CellT
    limit: float


Request = WarmRequest | OracleRequest[CellT] | CellRequest[CellT] | SampleRequest[CellT]


class Reply(Struct, frozen=True, kw_only=True):
    """The outcome of a request. problem: the reason why figures are missing."""

    status: Status = "ok"
    problem: str = ""


class WarmReply(Reply, frozen=True, kw_only=True):
    measuring: int = 0
    """The number of the measuring code (harness/results/record.py)."""


class OracleReply(Reply, frozen=True, kw_only=True):
    once: float = 0.0
    """Seconds of DuckDB for the query over all rows with one thread; 0 if the stream does not end with all rows."""


class SampleReply(Reply, frozen=True, kw_only=True):
    time: float = 0.0
    """Seconds."""
    state: int = 0
    """Bytes that the engine keeps at the end."""
    rows: int = 0
    """Rows that the engine keeps at the end; 0 if it does not report them."""
    peak: int = 0
    """Bytes by which the memory of the process grew at most."""


class CellReply(Reply, frozen=True, kw_only=True):
    """The outcome of a cell: the fields of a `Record` of these names, which describes them."""

    control: float = 0.0
    digest: str = ""
    verified: str = ""
    figures: Figures = {}

    def fill(self, record: Record) -> Record:
        """Return a record with this outcome."""
        return structs.replace(record, **{**structs.asdict(self), "figures": {**record.figures, **self.figures}})
