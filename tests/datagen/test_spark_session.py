"""A session of Spark removes its files, chooses the sockets of its processes, and shares no JVM with a child."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from deltamark.datagen.spark import session as spark_session
from deltamark.harness.measure.child import run_in_child


@pytest.mark.parametrize("master", ["local[2]", "spark://master:7077"])
def test_the_jvm_of_a_driver_has_its_temporary_files_in_a_directory_of_the_session(master, monkeypatch):
    """A killed JVM leaves them, and only that directory is swept."""
    started = []
    monkeypatch.setattr(spark_session, "_start", lambda *arguments: started.append(arguments) or MagicMock())
    with spark_session.session(master):
        (_, settings, directory), *_ = started
    assert settings["spark.driver.extraJavaOptions"].endswith(f" -Djava.io.tmpdir={directory}")
    assert ("spark.executor.extraJavaOptions" in settings) == master.startswith("local")


@pytest.mark.parametrize(("length", "enabled"), [(60, "true"), (61, "false")])
def test_processes_talk_over_unix_domain_sockets_if_their_paths_are_short_enough(length, enabled):
    """A longer path would be refused when the socket is made, and no session would start."""
    directory = Path("/" + "d" * (length - 1))
    assert spark_session.socket_settings(directory) == {"spark.python.unix.domain.socket.enabled": enabled}


OPEN = ExitStack()
"""The sessions of children that end without stopping them."""


def count_and_stay():
    return OPEN.enter_context(spark_session.session("local[1]")).range(3).count()


def test_a_child_has_a_jvm_of_its_own():
    """In the JVM of its parent, the context that the child leaves would refuse the next one."""
    for _ in range(2):
        with spark_session.session("local[1]") as spark:
            assert spark.range(5).count() == 5
        assert run_in_child(lambda _: count_and_stay(), 300) == 3
