"""The choice of Java: JAVA_HOME, java on the PATH, or the bundled runtime; never an unsupported version."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deltamark.datagen.spark.java import java_home, major_version
from deltamark.errors import DeltamarkError


def fake_java(directory: Path, version: str) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(0o755)
    return directory


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("21", 21)])
def test_versions_are_read(tmp_path, version, major):
    assert major_version(fake_java(tmp_path, version) / "bin" / "java") == major


def test_java_home_is_used(tmp_path):
    home = fake_java(tmp_path / "java", "17.0.1")
    assert java_home({"JAVA_HOME": str(home), "PATH": ""}, tmp_path) == home


def test_java_on_the_path_is_used(tmp_path):
    home = fake_java(tmp_path / "java", "21.0.1")
    assert java_home({"PATH": str(home / "bin")}, tmp_path) == home


@pytest.mark.parametrize(
    ("version", "message"),
    [("11.0.2", "Java too old: .* is Java 11; set JAVA_HOME to a Java 17 or 21, or"), ("25.0.1", "Java too new")],
)
@pytest.mark.parametrize("by", ["JAVA_HOME", "PATH"])
def test_unsupported_versions_are_refused_by_name(tmp_path, by, version, message):
    home = fake_java(tmp_path / "java", version)
    environ = {"JAVA_HOME": str(home)} if by == "JAVA_HOME" else {"PATH": str(home / "bin")}
    with pytest.raises(DeltamarkError, match=message):
        java_home(environ, tmp_path)


def test_a_java_home_without_java_is_refused(tmp_path):
    with pytest.raises(DeltamarkError, match="no Java found: JAVA_HOME="):
        java_home({"JAVA_HOME": str(tmp_path)}, tmp_path)


@pytest.mark.parametrize("environ", [{"PATH": ""}, {"PATH": "", "JAVA_HOME": "bundled"}])
def test_without_java_the_bundled_runtime_works(tmp_path, environ):
    home = java_home(environ, tmp_path)
    java = home / "bin" / "java"
    assert major_version(java) == 21
    flagged = subprocess.run([java, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False)
    assert flagged.returncode == 0
    assert java_home(environ, tmp_path) == home  # making it again is harmless
