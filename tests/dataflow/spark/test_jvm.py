"""The JVM of a process: its sessions share it, and a child has its own."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from deltamark.datagen import scratch
from deltamark.datagen.spark.session import session
from deltamark.harness.engines.spark_feed import SESSIONS
from deltamark.harness.measure.child import run_in_child

pytestmark = pytest.mark.waits(3)

OPEN = ExitStack()
"""The session of a child that ends without stopping it."""


def test_the_directory_of_a_live_jvm_is_not_swept():
    """Spark writes to the directory of the first session of its JVM, also in later sessions."""
    SESSIONS.on("local[2]")
    SESSIONS.close()
    directory = Path(SESSIONS.on("local[2]").sparkContext._temp_dir)
    scratch.sweep()
    assert directory.exists()


def partitions_of_an_open_session():
    return OPEN.enter_context(session("local[1]")).sparkContext.parallelize([1, 2, 3], 3).getNumPartitions()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_child_has_a_jvm_of_its_own():
    """In the JVM of its parent, the context that the child leaves would refuse the next one."""
    SESSIONS.on("local[2]")
    SESSIONS.close()
    assert run_in_child(lambda _: partitions_of_an_open_session(), 300) == 3
    assert SESSIONS.on("local[2]").sparkContext.parallelize([1, 2], 2).getNumPartitions() == 2
