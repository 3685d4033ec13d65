"""The process of a program, under a keeper that ends it with all processes that it has started."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from deltamark.dataflow.runtime.process_pool import adopt_orphans, signal_name
from deltamark.harness.engines.external import keeper

KEEPER = Path(keeper.__file__)

MAX_REPORT_BYTES = 32
"""The size of a report of the keeper, which is a number."""


class KeptProcess:
    """A process with pipes to its standard streams. An OSError says why it did not start."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), str(other.fileno()), *command], bufsize=0, env=environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                pass_fds=[other.fileno()], start_new_session=True,
                preexec_fn=adopt_orphans,  # noqa: PLW1509 (it only makes a system call)
            )  # fmt: skip
        assert self._keeper.stdin
        assert self._keeper.stdout
        assert self._keeper.stderr
        self.input, self.output, self.errors = self._keeper.stdin, self._keeper.stdout, self._keeper.stderr
        self.link = self._link.fileno()
        """A file that has data when the program has ended."""
        self._status: int | None = None
        self.pid = self._report(or_else=-errno.ECHILD)
        """The process id of the program."""
        if self.pid <= 0:
            self.close()
            raise OSError(-self.pid, os.strerror(-self.pid), command[0])

    @property
    def exit_code(self) -> int | None:
        """The exit code, or a negative number of a signal; None while the program runs."""
        return None if self._status is None else os.waitstatus_to_exitcode(self._status)

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the program; return whether it has ended."""
        link = select.poll()
        link.register(self._link, select.POLLIN)
        if self._status is None and link.poll(seconds * 1000):
            self._status = self._report(or_else=signal.SIGKILL)
        return self._status is not None

    @property
    def described_end(self) -> str:
        """The end of the program in words; empty while it runs."""
        match self.exit_code:
            case None:
                return ""
            case code if code < 0:
                return f"it was ended by {signal_name(-code)}"
            case code:
                return f"it has ended with exit code {code}"

    def close(self) -> None:
        """End the program and all processes that it has started."""
        for pipe in (self.input, self.output, self.errors, self._link):
            pipe.close()
        self._keeper.wait()

    def _report(self, *, or_else: int) -> int:
        """Read the next report of the keeper. or_else: the report of a keeper that was killed."""
        return int(self._link.recv(MAX_REPORT_BYTES) or or_else)
