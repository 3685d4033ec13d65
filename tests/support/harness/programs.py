"""External engines for tests: the example program as a thread at the other ends of the pipes, and faulty programs."""

from __future__ import annotations

import os
import runpy
import threading
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
