"""A running program that speaks the engine protocol: its process, its directory of files, and one request at a time."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import pyarrow as pa

from deltamark.dataflow.runtime.process_ends import end_with
from deltamark.datagen import scratch
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.external.messages import PROTOCOL, Close, Hello, HelloReply, Reply, Request
from deltamark.harness.measure.client import ONE_THREAD, shut_down

R = TypeVar("R", bound=Reply)

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (its files are in a directory of their own)
"""The directory of files that need no disk."""

DOCUMENTATION = "docs/protocol.md describes the protocol"

HELLO_TIMEOUT_S = 60.0
"""The time that a program may take to start and to reply to `hello`; not measured."""

HELLO_LIMIT = "DELTAMARK_HELLO_LIMIT_S"
"""The environment variable that limits this time further, in this process and in the measurement servers."""

MAX_QUOTED_LINE = 200
"""Characters of a line of standard error that an error quotes."""

launcher: list[str] = []
"""The words before the command of each program that this process starts; the memory suite starts it under a limit."""


@contextmanager
def hello_within(limit: float) -> Iterator[None]:
    """Limit the time of `hello` to the time limit of a run, in seconds, also in processes that start meanwhile."""
    os.environ[HELLO_LIMIT] = str(limit)
    try:
        yield
    finally:
        del os.environ[HELLO_LIMIT]


class Program:
    """A program that has replied to `hello`. name: the engine as the user has named it."""

    def __init__(self, name: str, command: list[str]) -> None:
        self._name = name
        shared = SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK)
        self.directory = scratch.make(SHARED_MEMORY if shared else None)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (read after the program has ended)
        own = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
        try:
            self._process = subprocess.Popen(
                [*launcher, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=own,
                preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 (it only makes system calls)
            )  # fmt: skip
        except OSError as error:
            scratch.remove(self.directory)
            raise DeltamarkError(f"{name} did not start", error, "find the program") from error
        self.request_seconds = 0.0
        """The time from the last request to its reply."""
        self.unclean_end = ""
        """After `close`: how the program ended, unless it ended with exit code 0."""
        try:
            self.greeting = self._greeting()
        except BaseException:
            self.close()
            raise

    @property
    def process(self) -> int:
        return self._process.pid

    def request(self, request: Request, kind: type[R], limit: float | None = None) -> R:
        """Send a request; return the reply. limit: seconds, in addition to the limit of the run."""
        with self.failures(request):
            assert self._process.stdin
            assert self._process.stdout
            line = msgspec.json.encode(request) + b"\n"
            started = time.perf_counter()
            self._process.stdin.write(line)
            self._process.stdin.flush()
            if limit is not None and not select.select([self._process.stdout], [], [], limit)[0]:
                raise OSError(f"no reply within {limit:g} s")
            reply = self._process.stdout.readline()
            self.request_seconds = time.perf_counter() - started
            if not reply:
                raise OSError(self._ending())
            if (error := msgspec.json.decode(reply, type=Reply).error) is not None:
                raise OSError(error)
            return msgspec.json.decode(reply, type=kind)

    @contextmanager
    def failures(self, request: Request) -> Iterator[None]:
        """Turn what goes wrong with a request, its reply or its files into an error of one line."""
        try:
            yield
        except BrokenPipeError:
            raise self.failed(request, self._ending()) from None
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise self.failed(request, error) from error

    def failed(self, request: Request, problem: object) -> DeltamarkError:
        """Return the error of a failed request."""
        return DeltamarkError(f"{self._name} failed to {type(request).__name__.lower()}", problem, DOCUMENTATION)

    def close(self) -> None:
        """Ask the program to end, and kill it if it does not."""
        assert self._process.stdin
        with suppress(OSError, ValueError):
            self._process.stdin.write(msgspec.json.encode(Close()) + b"\n")
            self._process.stdin.flush()
        shut_down(self._process)
        self.unclean_end = self._ending() if self._process.returncode else ""
        self._errors.close()
        scratch.remove(self.directory)

    def _greeting(self) -> HelloReply:
        hello, limit = Hello(), min(HELLO_TIMEOUT_S, float(os.environ.get(HELLO_LIMIT, "inf")))
        try:
            greeting = self.request(hello, HelloReply, limit)
        except DeltamarkError as error:
            if self._process.poll() is not None:
                raise
            self._process.kill()  # it may not know `close` either
            raise self._other_protocol(hello, error.actual) from error
        if greeting.protocol != PROTOCOL:
            raise self._other_protocol(hello, f"protocol {greeting.protocol}")
        return greeting

    def _other_protocol(self, hello: Hello, actual: object) -> DeltamarkError:
        return self.failed(hello, f"the harness speaks protocol {PROTOCOL}, and the program does not: {actual}")

    def _ending(self) -> str:
        """Describe the end of the program."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        match self._process.poll():
            case None:
                end = "it has closed its output"
            case code if code < 0:
                end = f"it was ended by {signal.Signals(-code).name}"
            case code:
                end = f"it has ended with exit code {code}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f"{end}: {said[-1][:MAX_QUOTED_LINE]}" if said else end


def split(command: str) -> list[str]:
    """Return the words of a command; raise a DeltamarkError unless it has at least one."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise DeltamarkError("not a command", f"{command}: {error}", "correct its quotation marks") from None
    if not words:
        raise DeltamarkError("not a command", repr(command), "give an executable, or an existing .py file")
    return words


def program_command(name: str, text: str) -> list[str]:
    """Return the command that starts a program; raise a DeltamarkError if the program does not exist."""
    words = split(text)
    if words[0].endswith(".py") and Path(words[0]).exists():
        return [sys.executable, *words]
    if shutil.which(words[0]):
        return words
    raise DeltamarkError("no such program", name, "give an executable, or an existing .py file")
