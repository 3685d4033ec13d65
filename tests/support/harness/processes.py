"""The end of processes, which tests wait for."""

from __future__ import annotations

import time
from pathlib import Path

from support.patience import patient

END_LIMIT_S = 10.0


def all_end(pids):
    """Wait for the end of processes; return whether all of them end in time."""
    deadline = time.monotonic() + patient(END_LIMIT_S)
    while any(map(_alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
