"""The end of processes, which tests wait for."""

from __future__ import annotations

import time
from pathlib import Path


def all_end(pids, seconds=10.0):
    """Wait for the end of processes; return whether all of them end within some seconds."""
    deadline = time.monotonic() + seconds
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
