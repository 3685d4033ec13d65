"""The process of a program, and its standard streams: a request is a line of its input, a reply one of its output.

The process has a keeper, which ends it with all processes that it has started. The texts of programs (names, messages,
errors) are cleaned, since they reach terminals, tables and records.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deltamark.harness.engines.external import keeper
from deltamark.harness.system.children import adopt_orphans, signal_name

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


MAX_TEXT = 500
"""The number of characters of a text, at most. Not tuned."""


def plain(text: str) -> str:
    r"""Return the beginning of a text as one line, in which escapes stand for characters that cannot be printed.

    >>> plain("mine\n1.0 \x1b[2J")
    'mine 1.0 \\x1b[2J'
    """
    words = " ".join(text[: 2 * MAX_TEXT].split())
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in words)
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}..."


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
