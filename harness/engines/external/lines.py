"""The standard streams of a program: a request is a line of its input, and one line of its output is the reply.

Texts of programs: their names, messages and errors, which reach terminals, tables and records.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress

from deltamark.harness.engines.external.process import KeptProcess

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
