"""Refusals of the operating system: each is one line and exit code 2, and complete data needs no write."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from support.harness.command_line import error_line, harness
from support.harness.tiny_data import tiny
from support.paths import ROOT

from deltamark.datagen.make import Wanted, make_data
from deltamark.errors import DeltamarkError
from deltamark.harness.results import store

REFERENCE = ROOT / "results" / "reference"


@pytest.mark.parametrize("command", ["plan SUITE=loops", "bench SUITE=loops", "tables", "report", "clean-results"])
@pytest.mark.parametrize("below", ["a file", "a file/below"])
def test_results_below_a_file_are_an_error(tmp_path, capsys, command, below):
    (tmp_path / "a file").touch()
    errors = error_line(capsys, [*command.split(), f"RESULTS={tmp_path / below}"])
    assert f"cannot read or write: {tmp_path}/a file" in errors


@pytest.mark.parametrize("name", [store.RECORDS, store.SESSIONS, store.LOCK])
def test_a_directory_in_place_of_a_file_of_results_is_an_error(tmp_path, capsys, name):
    (tmp_path / "m" / name).mkdir(parents=True)
    if name == store.SESSIONS:
        shutil.copy(REFERENCE / store.RECORDS, tmp_path / "m")
    command = "clean-results" if name == store.LOCK else "report"
    errors = error_line(capsys, [command, f"RESULTS={tmp_path}", "MACHINE=m", "SF=1"])
    assert f"cannot read or write: {tmp_path / 'm' / name}: Is a directory; give another path" in errors


def test_a_full_disk_names_the_file(tmp_path, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "m").mkdir()
    graphs = [line for line in (REFERENCE / store.RECORDS).read_text().splitlines(keepends=True) if '"graph"' in line]
    (tmp_path / "m" / store.RECORDS).write_text("".join(graphs))
    monkeypatch.setattr(Path, "write_text", full)
    errors = error_line(capsys, ["report", f"RESULTS={tmp_path}", "MACHINE=m"])
    assert f"{tmp_path}/m/report.html: No space left on device; make room on the disk" in errors
    monkeypatch.setattr(os, "fsync", full)
    with store.writing(tmp_path / "m") as writer, pytest.raises(DeltamarkError, match=r"sessions.jsonl: No space left"):
        writer.add_session({})


def test_a_file_that_may_not_grow_is_an_error(tmp_path):
    words = ["report", f"RESULTS={REFERENCE.parent}", "MACHINE=reference", "SF=1", "--output", str(tmp_path / "x.html")]
    code, errors = harness(*words, limit=(resource.RLIMIT_FSIZE, 5000))
    assert (code, errors.count("\n")) == (2, 1)
    assert f"error: cannot read or write: {tmp_path}/x.html: File too large; make room" in errors


@pytest.mark.parametrize(("words", "unbuffered"), [
    (["--help"], ""), (["data", "--help"], "1"), (["sql", "q01"], ""), (["sql", "q01"], "1"), (["sql", "q99"], ""),
])  # fmt: skip
def test_output_that_cannot_be_written_is_an_error(words, unbuffered):
    with Path("/dev/full").open("w") as full:
        code, errors = harness(*words, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
        assert (code, errors.count("\n")) == (2, 1)
        assert ("unknown query" if "q99" in words else "the output: No space left on device; make room") in errors
        assert harness(*words, stdout=full, stderr=full)[0] == 2


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_command_runs_with_closed_standard_streams(closed):
    process = subprocess.run(
        ["bash", "-c", f'"$0" -m harness sql q01 {closed}', sys.executable], cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    assert (process.returncode, process.stderr) == (0, b"")


@pytest.mark.parametrize("megabytes", [170, 300, 450, 700, 2000])
def test_little_memory_is_an_error_of_one_line(tmp_path, megabytes):
    """Any of several libraries may fail first.

    About 190 to 250 MB are just enough to load Arrow, which then writes a line of its own, or crashes.
    """
    tiny(Wanted(tmp_path, Decimal("0.001")).directory, [1, 2], 3)
    words = ["answer", "q01", "SF=0.001", f"DATA={tmp_path}"]
    code, errors = harness(*words, limit=(resource.RLIMIT_AS, megabytes << 20))
    assert (code, errors.count("\n")) == (2, 1)
    assert errors.startswith("error: ")


def denied(*_, **__):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_complete_data_is_used_where_nothing_may_be_written(tmp_path, monkeypatch):
    request = Wanted(tmp_path, Decimal("0.001"))
    written = tiny(request.directory, [1, 3, 2], 4)
    for module, name in ((os, "utime"), (os, "mkdir"), (os, "replace"), (os, "rename"), (os, "unlink"), (os, "link")):
        monkeypatch.setattr(module, name, denied)
    monkeypatch.setattr(os, "access", lambda *_: False)
    dataset, is_new = make_data(request, denied)
    assert not is_new
    assert dataset.manifest == written.manifest
    dataset.verify(lambda *_: None)


def test_complete_data_is_used_by_a_user_who_may_only_read_it():
    """The commands run as another user if this user is root, who may write everywhere.

    The first run, as root, imports all modules: another user may not be allowed to enter the directory of the sources.
    """
    with tempfile.TemporaryDirectory() as scratch:
        request = Wanted(Path(scratch) / "data", Decimal("0.001"))
        tiny(request.directory, [1, 3, 2], 4)
        (request.data / ".making-other").mkdir()
        for path in (Path(scratch), request.data, *request.data.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        script = (
            "import os, sys\n"
            "from deltamark.harness.cli.main import main\n"
            "words = [sys.argv[1], 'SF=0.001', 'DATA=' + sys.argv[2]]\n"
            "if os.getuid() == 0: main(words); os.setgid(65534); os.setuid(65534)\n"
            "sys.exit(main(words))"
        )
        for command, message in (("data", "already there"), ("data-verify", "files are unchanged")):
            process = subprocess.run(
                [sys.executable, "-c", script, command, str(request.data)], cwd=ROOT, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            assert process.returncode == 0, process.stderr
            assert message in process.stdout
        for path in (Path(scratch), *Path(scratch).rglob("*")):
            path.chmod(0o755)
