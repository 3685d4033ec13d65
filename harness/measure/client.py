"""The client of a measurement server (harness/measure/server.py, harness/compare/motifs.py) in this or another tree.

Messages between the process that plans measurements and the measurement server, each a line of JSON.

    {"do": "warm"}                                                        ->  {"status": "ok", "measuring": 1}
    {"do": "ask", "cell": {...}, "rounds": [500, 1000],
     "moments": [[1, 4001]], "limit": 600}                                ->  {"status": "ok", "once": 0.1}
    {"do": "cell", "cell": {...}, "runs": 3, "limit": 600,
     "compare": [500, 1000], "times": [4001], "checked": true,
     "beside": {...}}                                                     ->  the figures of a record
    {"do": "sample", "cell": {...}, "limit": 600}                         ->  {"status": "ok", "time": ..., ...}

The gate (harness/compare/) also talks to servers of older commits. Therefore fields may only be added, with defaults; a
change of the meaning of a field raises MEASURING (harness/results/record.py). Unknown fields are ignored.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, Self, TypeVar

import msgspec
from msgspec import Struct, structs
from msgspec.structs import replace

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.benchmarks.cell import AnyCell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.engines.base import REFUSALS, first_line
from deltamark.harness.measure.child import LimitError
from deltamark.harness.results.record import Figures, Record, Status
from deltamark.harness.system.machine import ROOT
from deltamark.harness.system.resources import ONE_THREAD

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
    runs: int
    limit: float
    """Seconds that a run may take."""
    compare: tuple[int, ...] = ()
    """The numbers of rounds after which answers are compared with those of an earlier `OracleRequest`."""
    times: tuple[int, ...] = ()
    """The logical times inside rounds at which a change stream is compared, too."""
    checked: bool = True
    beside: CellRequest[CellT] | None = None
    """The next request, whose check may run at the same time as the check of this one."""
    sample: int = 0
    """Only servers of older commits read it, and the gate times all batches: a cell has its own `sample`."""


class SampleRequest(Struct, Generic[CellT], frozen=True, tag_field="do", tag="sample"):
    """Time a cell, and check nothing."""

    cell: CellT
    limit: float


Request = WarmRequest | OracleRequest[CellT] | CellRequest[CellT] | SampleRequest[CellT]


class WrongError(Exception):
    """An answer that differs from DuckDB's, or a run whose output differs from another run's."""


class Reply(Struct, frozen=True, kw_only=True):
    """The outcome of a request. problem: the reason why figures are missing."""

    status: Status = "ok"
    problem: str = ""

    @classmethod
    def of(cls, error: Exception) -> Self:
        """Return the reply about work that an error has ended."""
        if isinstance(error, REFUSALS):
            return cls(status="refused", problem=first_line(error))
        if isinstance(error, LimitError):
            return cls(status="timeout", problem=str(error))
        is_wrong = isinstance(error, WrongError | WrongAnswerError)
        return cls(status="wrong" if is_wrong else "failed", problem=str(error))


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
    """The outcome of a cell, or of a row of its table: fields of a `Record`, which describes them."""

    control: float = 0.0
    digest: str = ""
    verified: str = ""
    figures: Figures = {}
    row: str = ""
    """The name of the row; empty: that of the cell."""
    note: str = ""

    def fill(self, record: Record) -> Record:
        """Return a record with this outcome."""
        fields = structs.asdict(self)
        row = fields.pop("row")
        params = {**record.params, "row": row} if row else record.params
        return structs.replace(record, **{**fields, "figures": {**record.figures, **self.figures}, "params": params})


SHUTDOWN_TIMEOUT_S = 5.0
"""The time that a server or program has to end at the end of its input, before it is killed. Not measured."""

R = TypeVar("R", bound=Reply)


class MeasurementClient:
    """A running server. Each method sends one request and waits for the reply.

    directory: the data that it measures with. module: that of the server, in the tree below `root`.
    """

    def __init__(self, directory: Path, module: str = "deltamark.harness.measure.server", root: Path = ROOT) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (read after the server has ended)
        paths = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(directory.resolve())],
            env=os.environ | ONE_THREAD | {"PYTHONPATH": paths}, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def warm(self, benchmark: str = DEFAULT) -> WarmReply:
        return self._request(WarmRequest(benchmark), WarmReply)

    def oracle_answers(
        self, cell: AnyCell, rounds: Sequence[int], limit: float, moments: Sequence[tuple[int, int]] = ()
    ) -> OracleReply:
        """Compute the oracle's answers to the query of a cell, or the oracle's count of a motif."""
        request = OracleRequest(cell, limit, tuple(rounds), tuple(moments))
        return self._request(request, OracleReply)

    def cell(self, request: CellRequest[CellT], beside: CellRequest[CellT] | None = None) -> CellReply:
        """Measure a cell. beside: the next request, whose check may run at the same time."""
        return self._request(replace(request, beside=beside), CellReply)

    def sample(self, cell: AnyCell, limit: float) -> SampleReply:
        """Time a cell, and check nothing."""
        return self._request(SampleRequest(cell, limit), SampleReply)

    def _request(self, request: Request[CellT], kind: type[R]) -> R:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            remedy = "run the same command again"
            raise DeltamarkError("the measuring process has ended", self._last_error(), remedy)
        try:
            return msgspec.json.decode(line, type=kind)
        except ValueError as error:
            remedy = "name commits that measure alike"
            raise DeltamarkError("the measuring process sent another message than expected", error, remedy) from error

    def _last_error(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def close(self) -> None:
        """End the server, with the cell that it measures."""
        shut_down(self._process)
        self._errors.close()


def shut_down(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a process, which ends it; kill it if it does not end in time."""
    assert process.stdin
    assert process.stdout
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(SHUTDOWN_TIMEOUT_S)
    except subprocess.TimeoutExpired:  # a server may be compiling
        process.kill()
        process.wait()
    process.stdout.close()
