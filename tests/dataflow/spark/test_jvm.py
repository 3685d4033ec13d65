"""Sessions of Spark that share a JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltamark.datagen import scratch
from deltamark.harness.engines.spark_feed import SESSIONS

pytestmark = pytest.mark.waits(3)


def test_the_directory_of_a_live_jvm_is_not_swept():
    """Spark writes to the directory of the first session of its JVM, also in later sessions."""
    SESSIONS.on("local[2]")
    SESSIONS.close()
    directory = Path(SESSIONS.on("local[2]").sparkContext._temp_dir)
    scratch.sweep()
    assert directory.exists()
