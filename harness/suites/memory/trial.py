"""Trials: runs of a cell in a new process, in a group with a limit of memory."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from deltamark.dataflow.runtime.process_ends import end_with
from deltamark.harness.engines.external import named
from deltamark.harness.measure.client import ONE_THREAD, ROOT
from deltamark.harness.measure.messages import CellReply
from deltamark.harness.measure.runs import CellJob
from deltamark.harness.suites.memory.groups import GroupPlace, entering
from deltamark.harness.suites.memory.trial_process import TrialRequest

PROCESS = "deltamark.harness.suites.memory.trial_process"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial. reply: without figures if the process was killed."""

    reply: CellReply
    kills: int
    """The number of processes that the limit has killed."""
    peak_bytes: int
    """The most bytes of the group, with pages of mapped files; 0 if it is not known."""

    @property
    def problem(self) -> str:
        """The reason why the trial does not pass; empty if it passes."""
        return "killed" if self.kills else self.reply.problem

    @property
    def seconds(self) -> float:
        """The seconds of a run that was not killed."""
        return self.reply.figures["seconds"][0]


@dataclass(frozen=True)
class Trials:
    """The trials of cells. data: the directory of the rows."""

    place: GroupPlace
    data: Path

    def run(self, job: CellJob, *, seconds: float, limit: int | None = None) -> Outcome:
        """Run a cell once. seconds: the time limit; limit: that of the memory in bytes."""
        words = [sys.executable, "-P", "-m", PROCESS]
        with closing(self.place.make(limit)) as group:
            if named.is_external(job.cell.engine):
                request = TrialRequest(job, self.data, tuple(entering(group.directory)))
            else:
                request, words = TrialRequest(job, self.data, ()), group.command(words)
            reply = _reply(words, request, seconds)
            return Outcome(reply, group.kills, group.peak)


def _reply(words: list[str], request: TrialRequest, seconds: float) -> CellReply:
    """Start a process; return its reply, or a reply that says why there is none."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryFile() as errors:
        try:
            with subprocess.Popen(
                words, env=os.environ | ONE_THREAD | {"PYTHONPATH": paths}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors,
                preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 (it only makes system calls)
            ) as process:  # fmt: skip
                try:
                    output, _ = process.communicate(pickle.dumps(request), seconds)
                finally:
                    process.kill()
        except subprocess.TimeoutExpired:
            return CellReply(status="failed", problem=f"over {seconds:.0f} s")
        if process.returncode == 0 and output:
            return msgspec.json.decode(output, type=CellReply)
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
        return CellReply(status="failed", problem=lines[-1] if lines else f"exit code {process.returncode}")
