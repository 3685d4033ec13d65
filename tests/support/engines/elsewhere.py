"""Calls in another thread, and in a forked process."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable

from deltamark.errors import DeltamarkError

TIMEOUT_S = 60


def in_thread(action: Callable[[], object]) -> object:
    """Call in another thread; return the result, or the error."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(action())
        except DeltamarkError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    assert found, "the thread waits for ever"
    return found[0]


def in_child(action: Callable[[], object]) -> str:
    """Call in a forked process; return the text of the result, or of the error, or how the process has ended."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads
        pid = os.fork()
    if pid == 0:
        try:
            said = str(action())
        except BaseException as error:  # noqa: BLE001 (the parent compares it)
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    return said if status == 0 else f"ended with status {status}"
