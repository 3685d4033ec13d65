"""The tests of this folder share a session of Spark, which is closed when their process leaves the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltamark.harness.engines.spark_feed import SESSIONS


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path.parent != Path(__file__).parent:
        SESSIONS.close()
