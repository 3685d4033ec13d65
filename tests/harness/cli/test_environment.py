"""Faults of the environment, and absurd settings: each is one line and exit code 2; mistakes of ours are tracebacks."""

from __future__ import annotations

import argparse
import errno
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest
from support.mutants import mutants, same
from support.paths import ROOT
from support.tiny import tiny

from deltamark.datagen.make import Wanted, make_data
from deltamark.errors import DeltamarkError, naming, refused
from deltamark.harness.cli.faults import told
from deltamark.harness.cli.main import COMMANDS, Parser, main, module_of
from deltamark.harness.cli.queries import sql
from deltamark.harness.results import store
from deltamark.harness.results.record import QueryRecord
from deltamark.harness.results.table_record import TableRecord

REFERENCE = ROOT / "results" / "reference"


def said(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """Run a command that must fail; return what it says in its only line."""
    assert main(words) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    return errors


def harness(*words: str, limit: tuple[int, int] | None = None, **more: object) -> tuple[int, str]:
    """Run the command line in a process of its own; return its exit code and what it says of errors."""
    ran = subprocess.run(
        [sys.executable, "-m", "harness", *words], cwd=ROOT, check=False,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more},
        preexec_fn=(lambda: resource.setrlimit(limit[0], (limit[1], limit[1]))) if limit else None,
    )  # fmt: skip
    return ran.returncode, ran.stderr


# what the operating system refuses


@pytest.mark.parametrize("command", ["plan SUITE=loops", "bench SUITE=loops", "tables", "report", "clean-results"])
@pytest.mark.parametrize("below", ["a file", "a file/below"])
def test_results_below_a_file(tmp_path, capsys, command, below):
    (tmp_path / "a file").touch()
    errors = said(capsys, [*command.split(), f"RESULTS={tmp_path / below}"])
    assert f"cannot read or write: {tmp_path}/a file" in errors


@pytest.mark.parametrize("name", [store.RECORDS, store.FINDINGS, store.SESSIONS, store.LOCK])
def test_a_directory_in_place_of_a_file_of_results(tmp_path, capsys, name):
    (tmp_path / "m" / name).mkdir(parents=True)
    if name == store.SESSIONS:
        shutil.copy(REFERENCE / store.RECORDS, tmp_path / "m")
    command = "clean-results" if name == store.LOCK else "report"
    errors = said(capsys, [command, f"RESULTS={tmp_path}", "MACHINE=m", "SF=1"])
    assert f"cannot read or write: {tmp_path / 'm' / name}: Is a directory; give another path" in errors


BROKEN = [
    b"\xff\xfe\x00\n",
    b"[" * 100_000 + b"\n",
    b"1" * 5000 + b"\n",
    b"{\n",
    b"null\n",
    b"[]\n",
    b'{"version":1}\n',
]


@pytest.mark.parametrize("name", [store.RECORDS, store.FINDINGS, store.SESSIONS])
@pytest.mark.parametrize("content", BROKEN)
def test_a_file_of_results_that_has_other_lines(tmp_path, capsys, name, content):
    shutil.copytree(REFERENCE, tmp_path / "m")
    (tmp_path / "m" / name).write_bytes(content)
    errors = said(capsys, ["report", f"RESULTS={tmp_path}", "MACHINE=m"])
    assert f"not a record: {tmp_path / 'm' / name}, line 1: " in errors


@pytest.mark.parametrize("name", [store.RECORDS, store.FINDINGS, store.SESSIONS])
@pytest.mark.parametrize("tail", [b'{"version', b"\xc3", b"{}", b"\x00\x00"])
def test_what_a_crash_cut_off_is_left_out(tmp_path, name, tail):
    (tmp_path / name).write_bytes((REFERENCE / name).read_bytes() + tail)
    if name == store.SESSIONS:
        assert store.sessions(tmp_path) == store.sessions(REFERENCE)
        return
    kind = QueryRecord if name == store.RECORDS else TableRecord
    of_kind = [record for record in store.read(REFERENCE).records if isinstance(record, kind)]
    assert store.read(tmp_path).records == of_kind


def test_a_full_disk_names_the_file(tmp_path, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "m").mkdir()
    (tmp_path / "m" / store.FINDINGS).write_bytes((REFERENCE / store.FINDINGS).read_bytes())
    monkeypatch.setattr(Path, "write_text", full)
    errors = said(capsys, ["report", f"RESULTS={tmp_path}", "MACHINE=m"])
    assert f"{tmp_path}/m/report.html: No space left on device; make room on the disk" in errors
    monkeypatch.setattr(os, "fsync", full)
    with store.writing(tmp_path / "m") as writer, pytest.raises(DeltamarkError, match=r"sessions.jsonl: No space left"):
        writer.add_session({})


def test_a_file_that_may_not_grow(tmp_path):
    words = ["report", f"RESULTS={REFERENCE.parent}", "MACHINE=reference", "SF=1", "--output", str(tmp_path / "x.html")]
    code, errors = harness(*words, limit=(resource.RLIMIT_FSIZE, 5000))
    assert (code, errors.count("\n")) == (2, 1)
    assert f"error: cannot read or write: {tmp_path}/x.html: File too large; make room" in errors


@pytest.mark.parametrize("words", [["--help"], ["sql", "--help"], ["--version"], ["sql", "q01"], ["sql", "q99"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written(words, unbuffered):
    with Path("/dev/full").open("w") as full:
        code, errors = harness(*words, stdout=full, env={**os.environ, "PYTHONUNBUFFERED": unbuffered})
        assert (code, errors.count("\n")) == (2, 1)
        assert ("unknown query" if "q99" in words else "the output: No space left on device; make room") in errors
        assert harness(*words, stdout=full, stderr=full)[0] == 2


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_standard_streams_that_are_closed(closed):
    ran = subprocess.run(
        ["bash", "-c", f'"$0" -m harness sql q01 {closed}', sys.executable], cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("megabytes", [200, 450, 700, 2000])
def test_little_memory(tmp_path, megabytes):
    """Whatever library finds too little first."""
    tiny(Wanted(tmp_path, Decimal("0.001")).directory, [1, 2], 3)
    words = ["answer", "q01", "SF=0.001", f"DATA={tmp_path}"]
    code, errors = harness(*words, limit=(resource.RLIMIT_AS, megabytes << 20))
    assert (code, errors.count("\n")) == (2, 1)
    assert errors.startswith("error: ")


MISTAKES = [
    ValueError("x"), TypeError("x"), KeyError("x"), AssertionError("x"), RuntimeError("x"), ImportError("x"),
    ModuleNotFoundError("x", name="deltamark.harness.nothing"), OSError(errno.EBADF, "x"), OSError(errno.EINVAL, "x"),
    OSError("x"), ChildProcessError("TypeError: x"), RecursionError("x"), pa.ArrowInvalid("x"),
]  # fmt: skip


@pytest.mark.parametrize("error", MISTAKES, ids=repr)
def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch, error):
    def fail(_):
        raise error

    assert told(error) is None
    monkeypatch.setattr(sql, "run", fail)
    with pytest.raises(type(error)):
        main(["sql", "q01"])


FAULTS = {
    "out of memory": [
        MemoryError("Unable to allocate 8 TiB"), MemoryError(), pa.ArrowMemoryError("malloc of size 9 failed"),
        OSError(errno.ENOMEM, "x"), OSError("Memory mapping file failed: Cannot allocate memory"),
    ],
    "out of threads": [
        RuntimeError("can't start new thread"),
        pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
    ],
    "a library cannot be loaded": [
        ImportError("\n\nsee\nOriginal error was: libx.so: failed to map segment from shared object\n"),
        OSError("Could not find/load shared object file 'libllvmlite.so'"),
    ],
    "a package is missing: tabulate; run make setup": [ModuleNotFoundError("No module", name="tabulate.x")],
    "cannot read or write": [
        OSError(code, "x") for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENOLCK)
    ],
}  # fmt: skip


@pytest.mark.parametrize(("cause", "error"), [(cause, error) for cause in FAULTS for error in FAULTS[cause]])
def test_a_fault_is_told_in_one_line_and_can_be_debugged(monkeypatch, capsys, cause, error):
    def fail(_):
        raise error

    monkeypatch.setattr(sql, "run", fail)
    assert said(capsys, ["sql", "q01"]).startswith(f"error: {cause}")
    assert main(["sql", "q01", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_errors_of_libraries_that_are_not_imported_are_known_by_name():
    for library, name, text, cause in (
        ("_duckdb", "OutOfMemoryException", "x", "DuckDB is out of memory: x"),
        ("_duckdb", "IOException", "Could not write file: No space left on device", "DuckDB cannot read or write"),
        ("py4j.protocol", "Py4JNetworkError", "Answer from Java side is empty", "Spark has failed: Answer from Java"),
    ):
        error = type(name, (Exception,), {"__module__": library})(text)
        assert str(told(error)).startswith(cause)
        assert told(type("Other", (Exception,), {"__module__": library})("x")) is None


def test_an_error_names_the_files_it_is_about():
    assert "a -> b: File exists" in str(refused(OSError(errno.EEXIST, "x", "a", None, "b")))
    with pytest.raises(DeltamarkError, match="cannot read or write: x: No space left"), naming("x"):
        raise OSError(errno.ENOSPC, "No space left on device")


# data that is complete, and read-only


def denied(*_, **__):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_complete_data_is_used_where_nothing_may_be_written(tmp_path, monkeypatch):
    wanted = Wanted(tmp_path, Decimal("0.001"))
    made = tiny(wanted.directory, [1, 3, 2], 4)
    for module, name in ((os, "utime"), (os, "mkdir"), (os, "replace"), (os, "rename"), (os, "unlink"), (os, "link")):
        monkeypatch.setattr(module, name, denied)
    monkeypatch.setattr(os, "access", lambda *_: False)
    found, was_made = make_data(wanted, denied)
    assert not was_made
    assert found.manifest == made.manifest
    found.verify(lambda *_: None)


def test_complete_data_is_used_by_a_user_who_may_only_read_it():
    """For real: as another user if this one is root, who may write everywhere."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Wanted(Path(scratch) / "data", Decimal("0.001"))
        tiny(wanted.directory, [1, 3, 2], 4)
        (wanted.data / ".making-other").mkdir()
        for path in (Path(scratch), wanted.data, *wanted.data.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        script = (
            "import os, sys, harness.cli.data.data, harness.cli.data.data_verify\n"
            "from deltamark.harness.cli.main import main\n"
            "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
            "sys.exit(main([sys.argv[1], 'SF=0.001', 'DATA=' + sys.argv[2]]))"
        )
        for command, said in (("data", "already there"), ("data-verify", "files as they were made")):
            ran = subprocess.run(
                [sys.executable, "-c", script, command, str(wanted.data)], cwd=ROOT, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            assert ran.returncode == 0, ran.stderr
            assert said in ran.stdout
        for path in (Path(scratch), *Path(scratch).rglob("*")):
            path.chmod(0o755)


# settings


UNREAD = ("rounds", "at")
"""Settings that are compared with the workload, which knows its rounds and times."""

ABSURD = ["nan", "inf", "-inf", "-1", "1e300", "1e-300", "9" * 30, "9" * 5000, "", "x", "1,", "\u00b2", "0x10", "1_0"]


def typed(command: str) -> list[argparse.Action]:
    parser = Parser(allow_abbrev=False)
    import_module(module_of(command)).options(parser)
    return [each for each in parser._actions if each.type not in (None, str, Path) and each.dest not in UNREAD]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_setting_refuses_absurd_numbers(command):
    for action in typed(command):
        assert action.type not in (int, float), action.dest
        for text in ABSURD:
            try:
                found = action.type(text)
            except DeltamarkError:
                continue
            for each in found if isinstance(found, tuple) else (found,):
                assert isinstance(each, str) or 0 < each < math.inf, (action.dest, text)


@pytest.mark.parametrize(
    ("words", "bounds"),
    [
        (["bench", "TIMEOUT=0"], "not a number of seconds: '0'; write a number from 0.001 to 1000000"),
        (["bench", "TIMEOUT=nan"], "not a number of seconds: 'nan'"),
        (["compare", "--timeout", "inf"], "not a number of seconds: 'inf'"),
        (["bench", "SAMPLE=-1"], "not a whole number: '-1'; write one from 0 to 1000000000000"),
        (["bench", "RUNS=1000000"], "write one from 1 to 1000"),
        (["answer", "q01", f"LOGICAL={10**30}"], "write one from 1 to 1000000000000"),
        (["answer", "q01", f"PHYSICAL={10**30}"], "write one from 1 to 1000000000000"),
        (["answer", "q01", "WORKERS=100000"], "write one from 1 to 1024"),
        (["verify", "--times", "0"], "write one from 1 to 1000000"),
        (["verify", "--logical", "1,0"], "write one from 1 to 1000000000000"),
        (["data", "SF=1e300"], "not a scale factor: '1e300'; give a number from 0.001 to 100000"),
        (["chaos", "--times", "-1"], "not a whole number: '-1'"),
        (["spark-batches", "q01", "--batches", "1"], "write one from 2 to 1000000000000"),
        (["bench", "SUITE=loops", "NODES=99999999999999M"], "write one from 1 to 10000"),
        (["motif", "triangle", "--graph", f"rmat:{'9' * 5000}"], "the graph rmat:N needs a whole number N: '999"),
        (["motif", "triangle", "--check", "-1"], "not a whole number: '-1'"),
    ],
)
def test_an_absurd_setting_is_an_error_that_names_the_bounds(capsys, words, bounds):
    assert bounds in said(capsys, words)


def test_the_largest_batches_are_one_batch(chunked, capsys):
    data = f"DATA={chunked.directory.parent}"
    answers = []
    for size in (10**12, 1):
        words = ["answer", "q06", "SF=0.001", data, f"LOGICAL={size}", "PHYSICAL=1000000000000"]
        assert main(words) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


# records


def lines(name: str, **of: str) -> list[dict[str, object]]:
    made = [json.loads(line) for line in (REFERENCE / name).read_text().splitlines()]
    return [each for each in made if all(each.get(key) == value for key, value in of.items())]


@pytest.mark.parametrize(
    ("name", "of", "command"),
    [
        (store.RECORDS, {"query": "q01", "workload": "insert"}, ["tables"]),
        (store.SESSIONS, {}, ["report"]),
        *((store.FINDINGS, {"suite": suite}, ["tables", f"SUITE={suite}"]) for suite in ("graph", "loops", "shared")),
    ],
)
def test_a_changed_line_of_results_is_an_error_or_can_be_shown(tmp_path, capsys, name, of, command):
    first, *others = lines(name, **of)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / store.RECORDS).write_text("".join(json.dumps(each) + "\n" for each in lines(store.RECORDS)[:3]))
    words = [*command, f"RESULTS={tmp_path}", "MACHINE=m", f"SF={lines(store.RECORDS)[0]['sf']}"]
    for what, mutant in mutants(first):
        text = "".join(json.dumps(each) + "\n" for each in (mutant, *others[:3]))
        (tmp_path / "m" / name).write_text(text)
        code = main(words)
        assert code == 0 or not same(mutant, first), what
        assert code in (0, 2), what
        errors = capsys.readouterr().err
        assert code == 0 or (errors.startswith("error: ") and errors.count("\n") == 1), what
