"""A session of Spark removes its files and chooses the sockets of its processes."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from deltamark.datagen.spark import session as spark_session


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
