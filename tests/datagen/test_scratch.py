"""Temporary directories are removed, whether their processes end normally or are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from support.harness.local_tasks import draw
from support.paths import ROOT

from deltamark.datagen import scratch
from deltamark.datagen.graphs.make import VERSION

HOLD = """
import sys, time
from pathlib import Path
from deltamark.datagen import scratch
(scratch.make(Path(sys.argv[1])) / "file").touch()
print("made", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that has made a directory below `tmp_path / "apart"`."""
    (tmp_path / "apart").mkdir()
    command = [sys.executable, "-c", HOLD, str(tmp_path / "apart")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "made\n"
        yield process
        process.kill()


def test_a_directory_is_left_alone_as_long_as_its_process_lives(holder, tmp_path):
    mine = scratch.make(tmp_path / "apart")
    scratch.sweep(tmp_path / "apart")
    assert len([*(tmp_path / "apart").glob("*/file")]) == 1
    assert mine.exists()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    scratch.sweep(tmp_path / "apart")
    assert [*(tmp_path / "apart").iterdir()] == [mine]
    scratch.remove(mine)
    assert not [*(tmp_path / "apart").iterdir()]


def test_a_directory_is_left_alone_while_a_process_has_one_below_it(tmp_path):
    (apart := tmp_path / f"{scratch.PREFIX}of-the-dead").mkdir()
    mine = scratch.make(apart)
    scratch.sweep(tmp_path)
    assert mine.exists()
    scratch.remove(mine)
    scratch.sweep(tmp_path)
    assert not apart.exists()


def test_directories_of_other_programs_are_left_alone(tmp_path):
    (tmp_path / "deltamark-of-an-earlier-version").mkdir()
    (tmp_path / f"{scratch.PREFIX}file").touch()
    (tmp_path / f"{scratch.PREFIX}link").symlink_to(tmp_path / "deltamark-of-an-earlier-version")
    with_ours = sorted([*tmp_path.iterdir(), scratch.make(tmp_path)])
    scratch.sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == with_ours


def test_a_file_system_without_locks_is_no_error(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", flock)
    directory = scratch.make(tmp_path)
    scratch.sweep(tmp_path)
    assert directory.exists()


def test_an_unfinished_graph_is_removed_by_the_next_run(tmp_path):
    begun = scratch.make(tmp_path, f".making-graph-hub-9-v{VERSION}-")
    os.close(scratch._LOCKS.pop(begun))  # as if its process had been killed
    draw(tmp_path, ["hub:9"])
    assert [each.name for each in tmp_path.iterdir()] == [f"graph-hub-9-v{VERSION}"]
