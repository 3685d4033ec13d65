"""Faults of data, each caused for real, are one clear error, and no data is lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from random import SystemRandom

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import java_gateway
from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler
from pyspark.errors import PythonException
from support.harness.tiny_data import tiny
from support.paths import ROOT
from support.patience import patient

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted, make_data
from deltamark.datagen.spark.session import deaths, ended_if_interrupted, hush
from deltamark.errors import DeltamarkError


@pytest.fixture
def copy(tmp_path):
    return tiny(tmp_path / "copy", [1, 3, 2, 2, 1], 6).directory


def lineitem(directory: Path) -> Path:
    return directory / "lineitem" / "00001.arrow"


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_truncated_file_is_an_error(copy):
    size = lineitem(copy).stat().st_size
    os.truncate(lineitem(copy), size - 1)
    with pytest.raises(DeltamarkError, match=rf"lineitem/00001.arrow: {size - 1} bytes, not {size}; move .*copy away"):
        Dataset.open(copy)


def test_an_altered_file_is_an_error(copy):
    flip_a_byte(lineitem(copy))
    with pytest.raises(DeltamarkError, match=r"not the one that was made: .*lineitem/00001.arrow: its digest is"):
        Dataset.open(copy)


def test_an_altered_file_with_its_old_time_stamp_is_found_by_reading_all(copy):
    stat = lineitem(copy).stat()
    flip_a_byte(lineitem(copy))
    os.utime(lineitem(copy), ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(DeltamarkError, match=r"lineitem/00001.arrow: its digest is"):
        Dataset.open(copy).verify(lambda *_: None)


def test_an_untouched_copy_is_as_good_as_the_original(copy, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(copy, other, copy_function=shutil.copyfile)
    done = []
    Dataset.open(other).verify(lambda *progress: done.append(progress))
    assert done[-1][0] == done[-1][1] > 0
    assert lineitem(other).stat().st_mtime_ns == lineitem(copy).stat().st_mtime_ns


def test_a_lost_file_is_an_error(copy):
    lineitem(copy).unlink()
    with pytest.raises(DeltamarkError, match=r"lineitem/00001.arrow: No such file"):
        Dataset.open(copy)


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (
            '"schema_version": 4',
            '"schema_version": 1',
            "data of another version, not 4: .*: 1; move .*copy away and make",
        ),
        ('"schema_version": 4', '"schema_version": 2,,', "unreadable manifest"),
        ('"lineitem": {', '"lineitems": {', "the manifest was edited: .*: its digest is"),
        (r"(?s).*", "[]", r"unreadable manifest: .*: it is \[\], not an object"),
    ],
)
def test_a_foreign_manifest_is_an_error(copy, pattern, replacement, message):
    path = copy / "manifest.json"
    path.write_text(re.sub(pattern, replacement, path.read_text(), count=1))
    with pytest.raises(DeltamarkError, match=message):
        Dataset.open(copy)


def test_a_foreign_directory_is_left_alone(tmp_path):
    wanted = Wanted(tmp_path, Decimal("0.01"))
    wanted.directory.mkdir()
    (wanted.directory / "thesis.txt").write_text("precious")
    with pytest.raises(DeltamarkError, match=r"no manifest in the data directory: .*; move .* away"):
        make_data(wanted, lambda *_: None)
    assert (wanted.directory / "thesis.txt").read_text() == "precious"


def test_an_unwritable_directory_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        DeltamarkError, match=r"cannot write the data: .*/file/data: Not a directory; give another DATA="
    ):
        make_data(Wanted(tmp_path / "file" / "data", Decimal("0.01")), lambda *_: None)


def start(data: Path, environment: Mapping[str, str] = os.environ) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "harness", "data", "SF=0.01", f"DATA={data}", "MASTER=local[2]"],
        cwd=ROOT, env={**environment, "TMPDIR": str(data.parent)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


@pytest.fixture
def without_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment that has the programs which Spark calls, and no Java."""
    tools = tmp_path_factory.mktemp("tools")
    for name in ("bash", "dirname", "env", "ls", "nice", "ps", "readlink", "rm", "sh", "uname"):
        if path := shutil.which(name):
            (tools / name).symlink_to(path)
    chosen = {name for name in os.environ if name.startswith(("JAVA", "SPARK", "PYSPARK"))} - {"SPARK_SUBMIT_OPTS"}
    return {**{name: value for name, value in os.environ.items() if name not in chosen}, "PATH": str(tools)}


@pytest.mark.waits(30)
def test_kill_at_any_moment_leaves_nothing_or_all(tmp_path, data, without_java):
    """Kill -9 or Ctrl-C at a random moment of about ten seconds; then two runs at once complete the data.

    These two run with the Java that comes with the packages.
    """
    directory, chance = tmp_path / "data", SystemRandom()
    wanted = Wanted(directory, Decimal("0.01"))
    stop, moment = struck = chance.choice([signal.SIGKILL, signal.SIGINT]), chance.uniform(0, 10)
    process = start(directory)
    with suppress(subprocess.TimeoutExpired):
        process.wait(moment)
    process.send_signal(stop)
    _, errors = process.communicate(timeout=patient(60))
    assert process.returncode in (0, 130, -stop), struck
    assert "Traceback" not in errors, (struck, errors)
    assert not wanted.directory.exists() or Dataset.open(wanted.directory), struck
    shutil.rmtree(wanted.directory, ignore_errors=True)  # if it is complete, the next two make it again
    pair = [start(directory, without_java), start(directory, without_java)]
    outputs = [process.communicate(timeout=patient(120)) for process in pair]
    assert [process.returncode for process in pair] == [0, 0], (struck, outputs)
    assert sum("waiting for another process" in errors for _, errors in outputs) <= 1
    assert [path.name for path in directory.iterdir()] == [wanted.directory.name], struck
    assert [path.name for path in tmp_path.iterdir()] == ["data"], struck
    undisturbed = Dataset.open(Wanted(data, Decimal("0.01")).directory)
    assert digests(Dataset.open(wanted.directory)) == digests(undisturbed), struck


def digests(dataset: Dataset) -> list[tuple[str, str]]:
    return [(chunk.file, chunk.sha256) for chunk in dataset.manifest.files]


def died(*errors: BaseException) -> None:
    """Raise errors as a session does: the second when the session is stopped."""
    with deaths():
        try:
            raise errors[0]
        finally:
            for error in errors[1:]:
                raise error


EMPTY = "Answer from Java side is empty"
CRASHED = "An error occurred\n: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ([Py4JNetworkError(EMPTY)], "Answer from Java side is empty"),
        (
            [PythonException("thrown from the Python worker:\n  stream.read(4)\nKeyboardInterrupt")],
            "a task was interrupted",
        ),
        ([ConnectionRefusedError(111, "Connection refused")], "Connection refused"),
        (
            [Py4JError(CRASHED), Py4JNetworkError(EMPTY)],
            "org.apache.spark.SparkException: Python worker exited unexpectedly",
        ),
    ],
)
def test_a_process_of_spark_that_dies_is_one_line(errors, message):
    with pytest.raises(DeltamarkError, match="a process of Spark has died: ") as caught:
        died(*errors)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "errors",
    [
        [PythonException("a fault in a task")],
        [Py4JError("UNRESOLVED_COLUMN")],
        [KeyboardInterrupt(), Py4JNetworkError(EMPTY)],
        [
            DeltamarkError("a task could not read or write", "No space left on device", "make room"),
            Py4JNetworkError(EMPTY),
        ],
    ],
)
def test_an_error_that_is_no_death_of_spark_is_not_changed(errors):
    with pytest.raises(type(errors[0])) as caught:
        died(*errors)
    assert caught.value is errors[0]


def test_a_jvm_that_dies_makes_pyspark_print_no_traceback(capfd):
    hush()
    with AccumulatorTCPServer(("127.0.0.1", 0), UpdateRequestHandler, "secret") as server:
        server.handle_error(None, None)
    assert capfd.readouterr().err == ""


def test_a_jvm_ends_whose_start_is_interrupted(monkeypatch):
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    usual, started = java_gateway.Popen, []
    with pytest.raises(KeyboardInterrupt), ended_if_interrupted():  # noqa: PT012 (as PySpark does it)
        started.append(java_gateway.Popen(["sleep", "60"]))
        raise KeyboardInterrupt
    assert started[0].returncode == -signal.SIGKILL
    assert java_gateway.Popen is usual
