"""The client of a measurement server (harness/measure/server.py, harness/compare/motifs.py) in this or another tree."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.measure import messages
from deltamark.harness.measure.cell import AnyCell
from deltamark.harness.measure.messages import CellT

ROOT = Path(__file__).resolve().parent.parent.parent

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""The environment in which libraries start no thread pools, since the server forks."""

SHUTDOWN_TIMEOUT_S = 5.0
"""The time that a server or program has to end at the end of its input, before it is killed. Not measured."""

R = TypeVar("R", bound=messages.Reply)


@dataclass(frozen=True)
class ServerSpec:
    """The server to start: its module, and the directory of the data that it measures with."""

    directory: Path
    module: str = "deltamark.harness.measure.server"


class MeasurementClient:
    """A running server. Each method sends one request and waits for the reply."""

    def __init__(self, spec: ServerSpec, root: Path = ROOT) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (read after the server has ended)
        paths = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", spec.module, str(spec.directory.resolve())],
            env=os.environ | ONE_THREAD | {"PYTHONPATH": paths}, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def warm(self, benchmark: str = DEFAULT) -> messages.WarmReply:
        return self._request(messages.WarmRequest(benchmark), messages.WarmReply)

    def oracle_answers(
        self, cell: AnyCell, rounds: Sequence[int], limit: float, moments: Sequence[tuple[int, int]] = ()
    ) -> messages.OracleReply:
        """Compute the oracle's answers to the query of a cell, or the oracle's count of a motif."""
        request = messages.OracleRequest(cell, limit, tuple(rounds), tuple(moments))
        return self._request(request, messages.OracleReply)

    def cell(
        self, request: messages.CellRequest[CellT], beside: messages.CellRequest[CellT] | None = None
    ) -> messages.CellReply:
        """Measure a cell. beside: the next request, whose check may run at the same time."""
        return self._request(replace(request, beside=beside), messages.CellReply)

    def sample(self, cell: AnyCell, limit: float) -> messages.SampleReply:
        """Time a cell, and check nothing."""
        return self._request(messages.SampleRequest(cell, limit), messages.SampleReply)

    def _request(self, request: messages.Request[CellT], kind: type[R]) -> R:
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
