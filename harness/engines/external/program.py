"""A running program that speaks the engine protocol: its process, its directory of files, and one request at a time.

A request is a line of the standard input of the process, a reply one of its output. The process has a keeper, which
ends it with all processes that it has started. Rows are exchanged as Arrow files in the directory.
"""

from __future__ import annotations

import errno
import os
import select
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil
import pyarrow as pa

from deltamark.datagen import scratch
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.base import RefusedError
from deltamark.harness.engines.external import keeper
from deltamark.harness.engines.external.columns import NOT_SENT
from deltamark.harness.engines.external.messages import (
    PROTOCOLS,
    Attach,
    AttachReply,
    Close,
    FileReply,
    Hello,
    HelloReply,
    Open,
    OpenReply,
    Reply,
    Request,
    Restore,
    RestoreReply,
    plain,
)
from deltamark.harness.system.children import adopt_orphans, signal_name
from deltamark.harness.system.clock import Stopwatch
from deltamark.harness.system.resources import ONE_THREAD

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


MAX_REPLY_BYTES = 1 << 20
"""The length of a reply. A reply for the largest number of batches in one request has some 50 KB."""

MAX_KEPT_BYTES = 1 << 13
"""The end of standard error that is kept, of which an error quotes the last line."""

CHUNK_BYTES = 1 << 16
"""The size of a read, which is that of a pipe."""

MAX_QUOTED_BYTES = 40
"""The beginning of a wrong output that an error quotes."""


class ClosedError(Exception):
    """The program has closed a stream, whose name is the text of the error."""


class Lines:
    """The streams of a process. Standard error is read whenever the harness waits, so that the program can go on."""

    def __init__(self, process: KeptProcess) -> None:
        self._process = process
        streams = process.input, process.output, process.errors
        self._input, self._output, self._errors = (stream.fileno() for stream in streams)
        os.set_blocking(self._input, False)
        self._poll = select.poll()
        for stream in (self._output, self._errors):
            self._poll.register(stream, select.POLLIN)
        self._unsent = self._said = b""

    @property
    def last_error(self) -> str:
        """The last line of standard error that is not empty."""
        lines = self._said.decode(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "")

    def exchange(self, request: bytes, seconds: float | None) -> bytes:
        """Send a line, and return the reply; an error says what is wrong with the reply. seconds: the time limit."""
        if self._output in self._wait(0):
            raise ValueError(f"it wrote before the request: {quoted(self._read())}")
        deadline = None if seconds is None else time.monotonic() + seconds
        self._unsent, reply = request, bytearray()
        self._send()
        while b"\n" not in reply[-CHUNK_BYTES:]:
            ready = self._wait(None if deadline is None else deadline - time.monotonic())
            if not ready:
                raise TimeoutError(f"no reply within {seconds:g} s")
            if self._output in ready:
                reply += self._read()
            if len(reply) > MAX_REPLY_BYTES:
                raise ValueError(f"a reply of more than {MAX_REPLY_BYTES} bytes: {quoted(reply)}")
        line, _, rest = bytes(reply).partition(b"\n")
        if rest:
            raise ValueError(f"it wrote more than one line: {quoted(rest)}")
        return line

    def finish(self, request: bytes, seconds: float) -> bool:
        """Send the last line, and close the input; return whether the program ends within some seconds."""
        self._unsent = request
        with suppress(ClosedError):
            self._send()
        with suppress(KeyError):
            self._poll.unregister(self._input)
        self._process.input.close()
        return self.drain(seconds)

    def drain(self, seconds: float) -> bool:
        """Drop what the program still writes; return whether it ends within some seconds."""
        link, deadline = self._process.link, time.monotonic() + seconds
        self._poll.register(link, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            ready = self._wait(left)
            if self._output in ready and not os.read(self._output, CHUNK_BYTES):
                self._poll.unregister(self._output)
            if ready == {link}:  # the program has ended, and everything that it wrote was read
                break
        self._poll.unregister(link)
        return self._process.wait(0)

    def _wait(self, seconds: float | None) -> set[int]:
        """Wait for a stream; send the rest of the request, and read standard error. Return the streams with data."""
        ready = {stream for stream, _ in self._poll.poll(None if seconds is None else max(seconds, 0) * 1000)}
        if self._input in ready:
            self._send()
        if self._errors in ready:
            self._keep_errors()
        return ready

    def _send(self) -> None:
        try:
            sent = os.write(self._input, self._unsent)
        except BlockingIOError:
            sent = 0
        except BrokenPipeError:
            raise ClosedError("input") from None
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._poll.register(self._input, select.POLLOUT)
        else:
            with suppress(KeyError):
                self._poll.unregister(self._input)

    def _read(self) -> bytes:
        if not (chunk := os.read(self._output, CHUNK_BYTES)):
            raise ClosedError("output")
        return chunk

    def _keep_errors(self) -> None:
        chunk = os.read(self._errors, CHUNK_BYTES)
        self._said = (self._said + chunk)[-MAX_KEPT_BYTES:]
        if not chunk:
            self._poll.unregister(self._errors)


def quoted(output: bytes | bytearray) -> str:
    """Quote the beginning of a wrong output."""
    return repr(bytes(output[:MAX_QUOTED_BYTES]))[1:] + ("..." if len(output) > MAX_QUOTED_BYTES else "")


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
OpenR = TypeVar("OpenR", bound=OpenReply)

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
        """Open a query, or raise a RefusedError: the program may refuse it, or may not take its inputs."""
        return self._opened(request, OpenReply)

    def restore(self, request: Restore) -> RestoreReply:
        """Open a query in the state of a snapshot."""
        return self._opened(request, RestoreReply)

    def attach(self, request: Attach) -> AttachReply:
        """Open one more query over the rows that were fed so far."""
        return self._opened(request, AttachReply)

    def _opened(self, request: Open, kind: type[OpenR]) -> OpenR:
        for name, type_ in (column for each in request.relations.values() for column in each.columns):
            if type_ in NOT_SENT:
                actual = f"{name} is a {type_}, which no input of a program can be"
                raise RefusedError(f"{self._name} refuses {request.query}", actual, LEAVE_OUT)
        nullable = [name for each in request.relations.values() for name in each.nullable]
        if nullable and not self.greeting.nulls:
            actual = f"it takes no NULL in its inputs, which {nullable[0]} may have"
            raise RefusedError(f"{self._name} refuses {request.query}", actual, LEAVE_OUT)
        if request.deletions and not self.greeting.deletions:
            raise RefusedError(f"{self._name} refuses {request.query}", "it takes no deletions", LEAVE_OUT)
        reply = self.request(request, kind)
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
        cause = f"{self._name} failed to {request.__struct_config__.tag}"
        return DeltamarkError(cause, plain(str(problem)), DOCUMENTATION)

    def kill(self) -> None:
        """Kill the program, as a crash would. Its keeper ends the processes that it has started."""
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

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
        if greeting.protocol not in PROTOCOLS:
            raise self._other_protocol(hello, f"protocol {greeting.protocol}")
        return greeting

    def _other_protocol(self, hello: Hello, actual: object) -> DeltamarkError:
        self._close_limit = 0
        spoken = " and ".join(map(str, PROTOCOLS))
        return self.failed(hello, f"the harness speaks protocols {spoken}, and the program does not: {actual}")

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
