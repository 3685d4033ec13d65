"""A session of Spark removes its files."""

from __future__ import annotations

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
