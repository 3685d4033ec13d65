"""Child processes: one that ends with its parent, and the end of one in words."""

from __future__ import annotations

import ctypes
import os
import signal

DEATH_SIGNAL = 1
"""The option of `prctl` by which a process gets a signal when its parent ends."""

SUBREAPER = 36
"""The option of `prctl` by which a process becomes the parent of the orphans among its descendants."""

_libc = ctypes.CDLL(None, use_errno=True)


def end_with(parent: int) -> None:
    """Let the system kill this process, which `parent` has just forked, when `parent` ends."""
    _libc.prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Let the system make this process, also after an `exec`, the parent of its descendants whose parents end."""
    _libc.prctl(SUBREAPER, 1)


def described_end(pid: int) -> str:
    """Wait for the end of a child process, and describe it by a signal or an exit code. The child is not reaped."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended
    if ended.si_code == os.CLD_EXITED:
        return f"ended with exit code {ended.si_status}"
    return f"ended by {signal_name(ended.si_status)}"


def signal_name(number: int) -> str:
    """Return the name of a signal. Most of the real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
