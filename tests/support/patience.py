"""The limits of tests: they are longer on a slow or busy machine, so that only what hangs exceeds them."""

from __future__ import annotations

import hashlib
import os
import time

WORK = bytes(64 << 20)
WORK_S = 0.12
"""The time that hashing `WORK` takes on the machine for which the limits are written, if it is idle."""

VARIABLE = "DELTAMARK_TESTS_PATIENCE"


def measure_patience() -> None:
    """Measure how many times longer a fixed piece of work takes now, for this process and those that it starts."""
    if VARIABLE not in os.environ:
        begin = time.perf_counter()
        hashlib.blake2b(WORK)
        os.environ[VARIABLE] = str(max(1.0, (time.perf_counter() - begin) / WORK_S))


def patient(seconds: float) -> float:
    """Return the limit that corresponds, on this machine, to one of some seconds on an idle one."""
    return seconds * float(os.environ.get(VARIABLE, "1"))
