"""Damaged files of results: each is an error in one line, or can still be shown."""

from __future__ import annotations

import json
import shutil

import pytest
from support.harness.command_line import error_line
from support.harness.mutants import mutants, same
from support.paths import ROOT

from deltamark.harness.benchmarks.cell import THROUGHPUT
from deltamark.harness.cli.main import main
from deltamark.harness.results import store

REFERENCE = ROOT / "results" / "reference"

BROKEN = [
    b"\xff\xfe\x00\n",
    b"[" * 100_000 + b"\n",
    b"1" * 5000 + b"\n",
    b"{\n",
    b"null\n",
    b"[]\n",
    b'{"version":1}\n',
]


@pytest.mark.parametrize("name", [store.RECORDS, store.SESSIONS])
@pytest.mark.parametrize("content", BROKEN)
def test_a_file_of_results_with_foreign_lines_is_an_error(tmp_path, capsys, name, content):
    shutil.copytree(REFERENCE, tmp_path / "m")
    (tmp_path / "m" / name).write_bytes(content)
    errors = error_line(capsys, ["report", f"RESULTS={tmp_path}", "MACHINE=m"])
    assert f"not a record: {tmp_path / 'm' / name}, line 1: " in errors


@pytest.mark.parametrize("at", ["yesterday", "2026-02-30T00:00:00+00:00", "9999-12-31T23:59:59-14:00"])
@pytest.mark.parametrize(
    ("name", "command"),
    [
        (store.RECORDS, ["history"]),
        (store.RECORDS, ["export", "FORMAT=csv", "MACHINE=m"]),
        (store.RECORDS, ["report", "MACHINE=m"]),
        (store.RECORDS, ["tables", "SUITE=graph", "MACHINE=m"]),
    ],
)
def test_a_record_without_an_iso_time_is_an_error(tmp_path, capsys, name, command, at):
    (tmp_path / "m").mkdir()
    changed = "".join(json.dumps(line) + "\n" for line in (lines(name)[0], lines(name)[1] | {"at": at}))
    (tmp_path / "m" / name).write_text(changed)
    errors = error_line(capsys, [*command, f"RESULTS={tmp_path}"])
    assert f"{name}, line 2: `at` is not an ISO time: '{at}'; remove that line" in errors


@pytest.mark.parametrize("name", [store.RECORDS, store.SESSIONS])
@pytest.mark.parametrize("tail", [b'{"version', b"\xc3", b"{}", b"\x00\x00"])
def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path, name, tail):
    (tmp_path / name).write_bytes((REFERENCE / name).read_bytes() + tail)
    if name == store.SESSIONS:
        assert store.sessions(tmp_path) == store.sessions(REFERENCE)
        return
    assert store.read(tmp_path).records == store.read(REFERENCE).records


def lines(name: str, **of: str) -> list[dict[str, object]]:
    contents = [json.loads(line) for line in (REFERENCE / name).read_text().splitlines()]
    return [content for content in contents if content.items() >= of.items()]


@pytest.mark.parametrize(
    ("name", "of", "command"),
    [
        (store.RECORDS, {"suite": THROUGHPUT}, ["tables"]),
        (store.SESSIONS, {}, ["report"]),
        *((store.RECORDS, {"suite": suite}, ["tables", f"SUITE={suite}"]) for suite in ("graph", "loops", "shared")),
    ],
)
def test_a_changed_line_of_results_is_an_error_or_can_be_shown(tmp_path, capsys, name, of, command):
    first, *others = lines(name, **of)
    (tmp_path / "m").mkdir()
    measured = lines(store.RECORDS, suite=THROUGHPUT)[:3]
    (tmp_path / "m" / store.RECORDS).write_text("".join(json.dumps(line) + "\n" for line in measured))
    words = [*command, f"RESULTS={tmp_path}", "MACHINE=m", "SF=1"]
    for what, mutant in mutants(first, every=48):
        text = "".join(json.dumps(line) + "\n" for line in (mutant, *others[:3]))
        (tmp_path / "m" / name).write_text(text)
        code = main(words)
        assert code == 0 or not same(mutant, first), what
        assert code in (0, 2), what
        errors = capsys.readouterr().err
        assert code == 0 or (errors.startswith("error: ") and errors.count("\n") == 1), what
