"""A running program that speaks the engine protocol: its process, its directory of files, and one request at a time.

The directory of the Arrow files that the harness and a program exchange.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil
import pyarrow as pa

from deltamark.datagen import scratch
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.base import RefusedError
from deltamark.harness.engines.external.messages import (
    PROTOCOL,
    Close,
    FileReply,
    Hello,
    HelloReply,
    Open,
    OpenReply,
    Reply,
    Request,
)
from deltamark.harness.engines.external.process import ClosedError, KeptProcess, Lines, plain, quoted
from deltamark.harness.system.clock import Stopwatch
from deltamark.harness.system.resources import ONE_THREAD

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (its files are in a directory of their own)
"""The directory of files that need no disk."""


class FileDirectory:
    """A new directory, in which a file has a plain name. A program may write whatever it likes into the directory.

    Files are opened below the open directory, and links are not followed. So a file is never read or removed elsewhere.
    """

    def __init__(self) -> None:
        shared = SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK)
        self.path = scratch.make(SHARED_MEMORY if shared else None)
        self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Write a new file."""
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._handle)
        with os.fdopen(handle, "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)

    def take(self, name: str) -> pa.Table:
        """Read and remove a file of the program. The values are a copy, since the program may still change the file."""
        if Path(name).name != name:
            raise ValueError(f"not the name of a file in the directory: {name}")
        # without O_NONBLOCK, a pipe without a writer would be waited for
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._handle)
        try:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise ValueError(f"not a regular file: {name}")
            if about.st_size > (free := psutil.virtual_memory().available):
                raise ValueError(f"a file of {about.st_size} bytes, with {free} bytes of memory left: {name}")
            with os.fdopen(handle, "rb", closefd=False) as file:
                table = pa.ipc.open_file(file).read_all()
        finally:
            os.close(handle)
        self.remove(name)
        table.validate(full=True)
        return table

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._handle)

    def close(self) -> None:
        """Remove the directory."""
        os.close(self._handle)
        scratch.remove(self.path)


R = TypeVar("R", bound=Reply)

DOCUMENTATION = "docs/protocol.md describes the protocol"
LEAVE_OUT = "leave the query out"

HELLO_TIMEOUT_S = 60.0
"""The time that a program may take to start and to reply to `hello`; not measured."""

HELLO_LIMIT = "DELTAMARK_HELLO_LIMIT_S"
"""The environment variable that limits this time further, in this process and in the measurement servers."""

CLOSE_TIMEOUT_S = 30.0
"""The time that a program has to end after `close`, in which it may free gigabytes. Not measured."""

FAILED_TIMEOUT_S = 5.0
"""The same for a program that has failed; one that has failed to greet has none. Not measured."""

ENDING_TIMEOUT_S = 5.0
"""The time in which a program that has closed a stream is expected to end, so that an error can say how."""

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
    """A program that has replied to `hello`. name: the engine as the user has named it.

    limit: the seconds that a request may take, within the limit of the run; None: no other limit.
    """

    def __init__(self, name: str, command: list[str], limit: float | None = None) -> None:
        self._name, self._limit = name, limit
        self.files = FileDirectory()
        own = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
        try:
            self._process = KeptProcess([*launcher, *command], own)
        except OSError as error:
            self.files.close()
            raise DeltamarkError(f"{name} did not start", error, "find the program") from error
        self._lines, self._close_limit = Lines(self._process), CLOSE_TIMEOUT_S
        self._is_in_order = True
        """Whether every request was answered as it should be; not so after an interruption."""
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
        """Send a request; return the reply. limit: seconds, instead of those of the program."""
        with self.failures(request):
            line = msgspec.json.encode(request) + b"\n"
            with Stopwatch() as watch:
                reply = self._lines.exchange(line, self._limit if limit is None else limit)
            self.request_seconds = watch.seconds
            if (error := _decoded(reply, Reply).error) is not None:
                raise ValueError(error)
            return _decoded(reply, kind)

    def open(self, request: Open) -> OpenReply:
        """Open a query, or raise a RefusedError: the program may refuse it, or may take no NULL in its inputs."""
        nullable = [name for each in request.relations.values() for name in each.nullable]
        if nullable and not self.greeting.nulls:
            actual = f"it takes no NULL in its inputs, which {nullable[0]} may have"
            raise RefusedError(f"{self._name} refuses {request.query}", actual, LEAVE_OUT)
        reply = self.request(request, OpenReply)
        if reply.refused is not None:
            raise RefusedError(f"{self._name} refuses {request.query}", reply.refused, LEAVE_OUT)
        return reply

    def file(self, request: Request) -> pa.Table:
        """Send a request for a file; return its content, and remove the file."""
        name = self.request(request, FileReply).file
        with self.failures(request):
            return self.files.take(name)

    @contextmanager
    def failures(self, request: Request) -> Iterator[None]:
        """Turn what goes wrong with a request, its reply or its files into an error of one line."""
        was_in_order, self._is_in_order = self._is_in_order, False
        try:
            yield
            self._is_in_order = was_in_order
        except ClosedError as closed:
            self._lines.drain(ENDING_TIMEOUT_S)
            end = self._process.described_end or f"it has closed its {closed}"
            raise self.failed(request, self._with_last_error(end)) from None
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise self.failed(request, error) from error

    def failed(self, request: Request, problem: object) -> DeltamarkError:
        """Return the error of a failed request."""
        self._is_in_order = False
        cause = f"{self._name} failed to {type(request).__name__.lower()}"
        return DeltamarkError(cause, plain(str(problem)), DOCUMENTATION)

    def close(self) -> None:
        """Ask the program to end; then end it, unless it has, and all processes that it has started."""
        limit = self._close_limit if self._is_in_order else min(self._close_limit, FAILED_TIMEOUT_S)
        if not self._lines.finish(msgspec.json.encode(Close()) + b"\n", limit):
            self.unclean_end = f"it did not end within {limit:g} s"
        elif self._process.exit_code:
            self.unclean_end = self._with_last_error(self._process.described_end)
        self._process.close()
        self.files.close()

    def check_end(self) -> None:
        """Raise an error unless the program has ended as it should after `close`, or has failed before."""
        if self.unclean_end and self._is_in_order:
            raise self.failed(Close(), self.unclean_end)

    def _greeting(self) -> HelloReply:
        hello, limit = Hello(), min(HELLO_TIMEOUT_S, float(os.environ.get(HELLO_LIMIT, "inf")))
        try:
            greeting = self.request(hello, HelloReply, limit)
        except DeltamarkError as error:
            if self._process.wait(0):
                raise
            raise self._other_protocol(hello, error.actual) from error
        if greeting.protocol != PROTOCOL:
            raise self._other_protocol(hello, f"protocol {greeting.protocol}")
        return greeting

    def _other_protocol(self, hello: Hello, actual: object) -> DeltamarkError:
        self._close_limit = 0
        return self.failed(hello, f"the harness speaks protocol {PROTOCOL}, and the program does not: {actual}")

    def _with_last_error(self, end: str) -> str:
        said = plain(self._lines.last_error)
        return f"{end}: {said}" if said else end


def _decoded(reply: bytes, kind: type[R]) -> R:
    try:
        return msgspec.json.decode(reply, type=kind)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{error}: {quoted(reply)}") from error


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
