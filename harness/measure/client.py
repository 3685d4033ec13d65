"""Talks to a warm parent (harness/measure/server.py, harness/compare/motifs.py), of this work tree or another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deltamark.errors import DeltamarkError
from deltamark.harness.measure.cell import AnyCell

ROOT = Path(__file__).resolve().parent.parent.parent

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""So that the parent has no thread pool when it forks."""

PATIENCE = 5.0
"""Seconds in which the parent should end that is told to."""


@dataclass(frozen=True)
class Measuring:
    """What a parent measures: the data in a directory; module: what it runs."""

    directory: Path
    module: str = "deltamark.harness.measure.server"


@dataclass(frozen=True)
class CellRequest:
    """A cell to be measured. compare: after which rounds to compare answers with those that were asked for."""

    cell: AnyCell
    sample: int
    runs: int
    limit: float
    compare: tuple[int, ...]
    checked: bool = True

    @property
    def words(self) -> dict[str, Any]:
        return {"do": "cell", **asdict(self)}


class Warm:
    def __init__(self, of: Measuring, root: Path = ROOT) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (it is read when the parent has ended)
        paths = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", of.module, str(of.directory.resolve())],
            env=os.environ | ONE_THREAD | {"PYTHONPATH": paths}, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
        )  # fmt: skip

    def warm(self) -> dict[str, Any]:
        return self._request({"do": "warm"})

    def ask(self, cell: AnyCell, rounds: list[int], limit: float) -> dict[str, Any]:
        """Have DuckDB answer a cell's query, or the motif counted by hand."""
        return self._request({"do": "ask", "cell": asdict(cell), "rounds": rounds, "limit": limit})

    def cell(self, request: CellRequest, beside: CellRequest | None = None) -> dict[str, Any]:
        """Measure a cell. beside: what is asked for next; it is checked while this one is."""
        return self._request(request.words | ({"beside": beside.words} if beside else {}))

    def sample(self, cell: AnyCell, limit: float) -> dict[str, Any]:
        """Time a cell, and compare nothing."""
        return self._request({"do": "sample", "cell": asdict(cell), "limit": limit})

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise DeltamarkError("the measuring process has ended", self._last_words(), "run the same command again")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _last_words(self) -> str:
        self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def close(self) -> None:
        """End it, and what it is at."""
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # it compiles, say
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
