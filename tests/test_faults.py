"""Every fault is caused for real; each gives one clear error, and nothing is lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from tiny import tiny

from datagen.dataset import Dataset
from datagen.make import Wanted, make_data
from deltamark import DeltamarkError

ROOT = Path(__file__).parent.parent


@pytest.fixture
def copy(tmp_path):
    return tiny(tmp_path / "copy", [1, 3, 2, 2, 1], 6).directory


def lineitem(directory: Path) -> Path:
    return directory / "lineitem" / "00001.arrow"


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_truncated_file(copy):
    size = lineitem(copy).stat().st_size
    os.truncate(lineitem(copy), size - 1)
    with pytest.raises(DeltamarkError, match=rf"lineitem/00001.arrow: {size - 1} bytes, not {size}; move .*copy away"):
        Dataset.open(copy)


def test_an_altered_file(copy):
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


def test_a_lost_file(copy):
    lineitem(copy).unlink()
    with pytest.raises(DeltamarkError, match=r"lineitem/00001.arrow: No such file"):
        Dataset.open(copy)


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (
            '"schema_version": 2',
            '"schema_version": 1',
            "data of another version, not 2: .*: 1; move .*copy away and make",
        ),
        ('"schema_version": 2', '"schema_version": 2,,', "unreadable manifest"),
        ('"lineitem": {', '"lineitems": {', "the manifest is not the one that was written: .*: its digest is"),
        (r"(?s).*", "[]", r"unreadable manifest: .*: the whole is \[\], not an object"),
    ],
)
def test_a_manifest_that_is_not_ours(copy, pattern, replacement, message):
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


def test_an_unwritable_directory(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        DeltamarkError, match=r"cannot write the data: .*/file/data: Not a directory; give another DATA="
    ):
        make_data(Wanted(tmp_path / "file" / "data", Decimal("0.01")), lambda *_: None)


def start(data: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "harness", "data", "SF=0.01", f"DATA={data}", "MASTER=local[2]"],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(data.parent)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def wait_for(process: subprocess.Popen[str], what: str) -> None:
    for line in process.stderr:
        if line.startswith(what):
            return
    pytest.fail(f"{what!r} was not said")


@pytest.mark.waits(35)
def test_kill_at_any_moment_leaves_nothing_or_all(tmp_path, data):
    """Kill -9 while generating, Ctrl-C while pre-batching; then two at once finish what was left."""
    directory = tmp_path / "data"
    wanted = Wanted(directory, Decimal("0.01"))
    for said, stop, code in (
        ("generating parts", signal.SIGKILL, -signal.SIGKILL),
        ("pre-batching rows", signal.SIGINT, 130),
    ):
        process = start(directory)
        wait_for(process, said)
        process.send_signal(stop)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code
        assert "Traceback" not in errors
        assert not wanted.directory.exists() or Dataset.open(wanted.directory)
    pair = [start(directory), start(directory)]
    outputs = [process.communicate(timeout=120) for process in pair]
    assert [process.returncode for process in pair] == [0, 0], outputs
    assert sum("waiting for another process" in errors for _, errors in outputs) == 1
    assert [path.name for path in directory.iterdir()] == [wanted.directory.name]
    undisturbed = Dataset.open(Wanted(data, Decimal("0.01")).directory)
    assert digests(Dataset.open(wanted.directory)) == digests(undisturbed)


def digests(dataset: Dataset) -> list[tuple[str, str]]:
    return [(chunk.file, chunk.sha256) for chunk in dataset.manifest.files]
