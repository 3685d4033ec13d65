"""The reasons why Spark ends a query or a job, and the failures after which it is started again."""

from __future__ import annotations

import re
from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from deltamark.errors import DeltamarkError

CORRUPTION = r"Checksum|[Mm]alformed|JsonParse|JsonMapping|CANNOT_LOAD_STATE_STORE|log (file|version)|EOFException"
"""A pattern that occurs in Spark's errors about unreadable checkpoints."""

FULL_DISK = r"\((\S+) executor \S+\):[^\n]*(No space left on device)"
"""A pattern of Spark's error about a task that could not write; its groups are the host and the reason."""

SLOW_START = "Python worker failed to connect back"
"""Spark's error about a Python process that has not started within 10 s, a limit that no setting changes.

A query starts such processes before its first batch. A busy machine may need longer for one.
"""

MAX_SLOW_STARTS = 30
"""The number of times that a query is started again after `SLOW_START`. Ten were too few once on one core, beside
busy processes.
"""


def repeated(action: Callable[[], object]) -> None:
    """Call a function that starts Python processes; call it again if one of them has started too slowly."""
    for slow_starts in range(MAX_SLOW_STARTS + 1):
        try:
            action()
            break
        except (PySparkException, Py4JJavaError) as error:
            if SLOW_START not in str(error) or slow_starts == MAX_SLOW_STARTS:
                raise explained(error) from error


def explained(error: Exception) -> DeltamarkError:
    """Return the reason why a query ended: an error of this project if an executor raised one, or Spark's last line."""
    text = str(error)
    own_errors = re.findall(r"DeltamarkError: (.+?): (.+); (.+)", text)
    if own_errors:
        return DeltamarkError(*own_errors[-1])
    if full := re.search(FULL_DISK, text):
        remedy = "make room on the local disk of that host and on the disk of the query's directory, and run it again"
        return DeltamarkError("a disk is full", f"{full[2]}, on {full[1]}", remedy)
    reasons = [line.strip() for line in text.splitlines() if re.search(r"(Error|Exception)\b", line)] or [text]
    if any(re.search(CORRUPTION, line) for line in reasons):
        return DeltamarkError("a corrupt checkpoint", reasons[-1], "remove its directory and start again")
    return DeltamarkError("the query has failed", reasons[-1], "see Spark's full error with --debug")
