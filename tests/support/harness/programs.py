"""External engines for tests: the example program as a thread at the other ends of the pipes, and faulty programs."""

from __future__ import annotations

import os
import runpy
import select
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from support.paths import ROOT

from deltamark.harness.engines.external import program

EXAMPLE_FILE = ROOT / "examples" / "recompute.py"
EXAMPLE = f"exec:{EXAMPLE_FILE}"


class InThread:
    """A program in Python as a thread, which takes the place of a process. engine: serves instead of the program's."""

    engine: type | None = None
    pid, exit_code, described_end = os.getpid(), 0, ""

    def __init__(self, command, _environment):
        self._file = command[-1]
        (requests, send), (listen, replies), (said, say), (self.link, ended) = (os.pipe() for _ in range(4))
        self.input, self.output, self.errors = os.fdopen(send, "wb", 0), os.fdopen(listen, "rb"), os.fdopen(said, "rb")
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(requests, replies, say, ended))
        self._thread.start()

    def _serve(self, requests, replies, say, ended):
        engine = self.engine or runpy.run_path(self._file)["Engine"]
        with os.fdopen(requests, encoding="utf-8") as read, os.fdopen(replies, "w", encoding="utf-8") as write:
            runpy.run_path(str(EXAMPLE_FILE))["serve"](engine(), read, write)
        self._has_ended.set()
        os.close(say)
        os.close(ended)

    def wait(self, seconds):
        return self._has_ended.wait(seconds)

    def close(self):
        self._thread.join()
        for each in (self.output, self.errors):
            each.close()
        os.close(self.link)


def example_in_thread(monkeypatch, engine=None):
    """Run the example, or another class of engine, as a thread whenever a program is started."""
    monkeypatch.setattr(program, "KeptProcess", type("Process", (InThread,), {"engine": engine}))


class InFork:
    """A program in Python as a forked process, which starts in a hundredth of the time of a new one and can be killed.

    engine: makes the object that serves.
    """

    engine: Callable[[], object]

    def __init__(self, _command, _environment):
        (requests, send), (listen, replies), (said, say), (self.link, ended) = (os.pipe() for _ in range(4))
        self.pid, self._status = os.fork(), None
        if self.pid == 0:
            for end in (send, listen, said, self.link):
                os.close(end)
            self._serve(requests, replies)
        for end in (requests, replies, say, ended):
            os.close(end)
        self.input, self.output, self.errors = os.fdopen(send, "wb", 0), os.fdopen(listen, "rb"), os.fdopen(said, "rb")

    def _serve(self, requests, replies):
        try:
            with os.fdopen(requests, encoding="utf-8") as read, os.fdopen(replies, "w", encoding="utf-8") as write:
                runpy.run_path(str(EXAMPLE_FILE))["serve"](type(self).engine(), read, write)
        finally:
            os._exit(0)

    @property
    def described_end(self):
        return "" if self._status is None else f"it has ended with {os.waitstatus_to_exitcode(self._status)}"

    @property
    def exit_code(self):
        return None if self._status is None else os.waitstatus_to_exitcode(self._status)

    def wait(self, seconds):
        if self._status is None and select.select([self.link], [], [], seconds)[0]:
            self._status = os.waitpid(self.pid, 0)[1]
        return self._status is not None

    def close(self):
        for each in (self.input, self.output, self.errors):
            each.close()
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self._status = os.waitpid(self.pid, 0)[1]
        os.close(self.link)


def forked(monkeypatch, engine):
    """Fork this process whenever a program is started. engine: makes the object that serves there."""
    monkeypatch.setattr(program, "KeptProcess", type("Process", (InFork,), {"engine": staticmethod(engine)}))


STREAM_FILE = ROOT / "tests" / "support" / "engines" / "stream_program.py"
STREAM = f"exec:{STREAM_FILE} 0.01"


def stream_in_thread(monkeypatch, sf, moved=lambda changes: changes):
    """Run the embedded engine as a thread whenever a program is started. moved: replaces its changes."""

    class Stream(runpy.run_path(str(STREAM_FILE))["Engine"]):
        def __init__(self):
            super().__init__(sf)

        def table(self, changes):
            return super().table(moved(changes))

    example_in_thread(monkeypatch, Stream)


def faulty(directory: Path, of: Path = EXAMPLE_FILE, **replies: str) -> str:
    """Write a program that is another one except for some requests, which have these bodies; return its name."""
    methods = "\n".join(f"    def {name}(self, request):\n        {body}" for name, body in replies.items())
    path = directory / "faulty.py"
    path.write_text(
        "import os, runpy, sys, time\n"
        f"right = runpy.run_path({str(of)!r})\n"
        f"class Faulty(right['Engine']):\n{methods}\n"
        "right['serve'](Faulty(*sys.argv[1:]), sys.stdin, sys.stdout)\n"
    )
    return f"exec:{path}"


SAVING_FILE = ROOT / "tests" / "support" / "engines" / "snapshot_program.py"
SAVING = f"exec:{SAVING_FILE}"
