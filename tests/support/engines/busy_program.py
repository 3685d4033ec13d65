"""An external engine that maintains nothing, but uses CPU time in some place: `busy_program.py PLACE`.

In the places `apply` and `convert` it reports its time, as an honest engine does. In others it reports next to none.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

WORK_S = 0.05
"""CPU seconds of the work on a batch: a thousand times those of the messages about it."""

NO_TIME_S = 2e-6

ELSEWHERE_S = 0.3
"""Seconds of the work of a process that the program has not started: the harness only sees a late reply."""


def work(times: int = 1) -> None:
    end = time.thread_time() + times * WORK_S
    while time.thread_time() < end:
        pass


class Engine:
    def __init__(self, place: str) -> None:
        self.place = place
        self.thread: threading.Thread | None = None
        self.child = self.daemon = 0

    def hello(self, _):
        return {"protocol": 1, "name": f"busy, {self.place}", "output": "answers"}

    def open(self, request):
        self.directory, self.columns = Path(request["directory"]), [name for name, _ in request["answer"]]
        return {}

    def feed(self, _):
        """Wait for the work on the batch before, and work if this is the place."""
        if self.thread is not None:
            self.thread.join()
        if self.child:
            os.waitpid(self.child, 0)
        if self.daemon:
            os.read(self.daemon, 1)  # until all ends of the pipe for writing are closed
            os.close(self.daemon)
        if self.place in ("feed", "convert"):
            work(3 if self.place == "convert" else 1)
        return {}

    def apply(self, _):
        started = time.perf_counter()
        if self.place in ("apply", "convert", "apply, not reported"):
            work()
        if self.place == "elsewhere":
            time.sleep(ELSEWHERE_S)
        is_honest = self.place in ("apply", "convert")
        return {"changes": 1, "seconds": time.perf_counter() - started if is_honest else NO_TIME_S}

    def answer(self, _):
        """Return a row, as was counted, or none in the place `nowhere`."""
        if self.place == "answer":
            work(30)
        import pyarrow as pa  # noqa: PLC0415 (its import takes longer than all else)

        rows = pa.table({name: pa.array([0] * (self.place != "nowhere"), pa.int64()) for name in self.columns})
        with pa.ipc.new_file(str(self.directory / "answer.arrow"), rows.schema) as file:
            file.write_table(rows)
        return {"file": "answer.arrow"}

    def after_apply(self):
        """Work after the reply."""
        if self.place == "thread after the reply":
            self.thread = threading.Thread(target=work)
            self.thread.start()
        if self.place == "process after the reply":
            self.child = os.fork()
            if not self.child:
                work()
                os._exit(0)
        if self.place == "daemon after the reply":
            self.daemon, end = os.pipe()
            if not os.fork():
                os.setsid()
                if not os.fork():
                    work()
                os._exit(0)
            os.wait()
            os.close(end)

    def reply(self, request):
        return getattr(self, request["do"], lambda _: {})(request)


if __name__ == "__main__":
    engine = Engine(" ".join(sys.argv[1:]))
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "close":
            break
        print(json.dumps(engine.reply(asked)), flush=True)
        if asked["do"] == "apply":
            engine.after_apply()
