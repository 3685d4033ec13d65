"""Contributed records are compared with the facts of this project, and their texts are never run or opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec import json
from support.harness.records import changed
from support.paths import ROOT

from deltamark.harness.cli.main import main
from deltamark.harness.cli.results import validate
from deltamark.harness.results import contribution, store
from deltamark.harness.results.commits import KnownCommit
from deltamark.harness.results.contribution import facts, faults
from deltamark.harness.results.record import of_queries

REFERENCE = ROOT / "results" / "reference"
COMMITTED = store.read(REFERENCE).records
SESSIONS = store.sessions(REFERENCE)
RIGHT = next(record for record in of_queries(COMMITTED, "1") if record.engine == "embedded" and record.digest)
PEER = next(record for record in of_queries(COMMITTED, "1") if record.engine == "differential" and record.has_numbers)
COMMITS = {each.commit: KnownCommit(0.0, each.commit, "") for each in COMMITTED}
KNOWN = facts(COMMITTED, COMMITS, RIGHT.finished_s)


@pytest.mark.parametrize("engine", ["embedded", "duckdb", "differential"])
def test_the_reference_would_be_accepted(engine):
    known = facts(COMMITTED, COMMITS, max(record.finished_s for record in COMMITTED))
    own = [record for record in of_queries(COMMITTED) if record.engine == engine and record.has_numbers]
    assert len(own) > 20
    assert {record.cell: found for record in own if (found := faults(record, SESSIONS, known))} == {}


FAULTS = {
    "not a record of the suite tpch": {"suite": "coverage"},
    "a record of another version": {"measuring": 0},
    "a record of another repository": {"repository": "mine"},
    "neither a built-in engine nor a peer": {"engine": "exec:./program"},
    "not a query of this project": {"query": "q23"},
    "parameters that no cell has": {"is_default": False},
    "a name or a key that is not that of its parameters, code and data": {"key": "0" * 16},
    "no header of its session": {"session": "another"},
    "not a commit of this repository": {"commit": f"{RIGHT.commit}+"},
    "measured before its commit, or in the future": {"finished_at": "2999-01-01T00:00:00+00:00"},
    "no time of a right answer": {"status": "wrong"},
    "latencies that contradict each other": {"p50": [2 * RIGHT.latency["max"]]},
    "a rate that no processor has": {"seconds": [1e-9], "latency": dict.fromkeys(("p50", "p95", "p99", "max"), 1e-9)},
    "no committed record has data of this scale factor": {"sf": "77"},
    "not the data of the committed records": {"data": "0" * 16},
    "not the known change stream": {"digest": "1 0"},
    "not the tuples of the committed records": {"tuples": RIGHT.tuples + 1, "sampled": 0},
    "unknown workload": {"workload": "nothing"},
    "unknown variant": {"variant": "nothing"},
}


@pytest.mark.parametrize("reason", FAULTS)
def test_each_fault_is_named(reason):
    found = faults(changed(RIGHT, **FAULTS[reason]), SESSIONS, KNOWN)
    assert [each for each in found if each.startswith(reason)], found


def test_a_time_of_a_peer_that_leaves_out_the_work_is_refused():
    found = faults(changed(PEER, outside=[3600.0 for _ in PEER.seconds]), SESSIONS, KNOWN)
    assert [each for each in found if each.startswith("its time is not plausible: its replies took")], found


@pytest.mark.parametrize(
    "command", ["python -m harness bench SF=1; rm x", "python -m harness bench `id`", "make bench"]
)
def test_a_command_that_readers_may_copy_is_one_of_bench(command):
    sessions = {RIGHT.session: {**SESSIONS[RIGHT.session], "argv": command}}
    assert faults(RIGHT, sessions, KNOWN) == ["a session of another command than bench"]


@pytest.mark.parametrize("name", ["query", "benchmark", "engine"])
def test_a_path_in_place_of_a_name_is_not_opened(name, tmp_path):
    """A query of Python would be run, and a folder read."""
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    path = {"query": tmp_path / "evil.py", "benchmark": tmp_path, "engine": f"exec:{tmp_path / 'evil.py'}"}[name]
    record = changed(RIGHT)
    record.params[name] = str(path)
    assert len(faults(record, SESSIONS, KNOWN)) == 1
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def contributed(tmp_path, monkeypatch) -> Path:
    """Make a contribution of two records, whose commit is known; return its directory."""
    monkeypatch.setattr(validate, "known_commits", lambda *_: COMMITS)
    directory = tmp_path / "contributed" / "mine"
    with store.writing(directory) as writer:
        writer.add([RIGHT, PEER])
        for header in SESSIONS.values():
            writer.add_session(header)
    return directory


def run(directory, *words) -> int:
    return main(["validate", f"RECORDS={directory}", "CELLS=0", *words])


def test_a_valid_contribution_is_summarized(contributed, tmp_path, capsys):
    for path in (contributed, contributed / store.RECORDS, contributed.parent):
        assert run(path, f"OUTPUT={tmp_path / 'summary.md'}") == 0
        printed = capsys.readouterr().out
        assert "- `mine`: 2 new records: **valid**" in printed
        assert (tmp_path / "summary.md").read_text() == printed
    assert run(tmp_path / "nothing") == 2


def test_faults_have_the_numbers_of_their_lines(contributed, capsys):
    with store.writing(contributed) as writer:
        writer.add([changed(RIGHT, data="0" * 16)])
    assert run(contributed) == 2
    printed = capsys.readouterr().out
    assert "**2 faults**" in printed, "the key is wrong, too"
    assert "  - `line 3: not the data of the committed records`" in printed


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"version": 2}', "an incomplete last line"),
        (b'{"version": 2, "status": "`[click](http://x)`"}\n', "not a record"),
        (b'{"version": 3}\n', "1 record of another version"),
        (b"[" * 100_000 + b"\n", "not a record"),
    ],
)
def test_a_file_of_another_form_is_refused(contributed, content, reason, capsys):
    (contributed / store.RECORDS).write_bytes(content)
    assert run(contributed) == 2
    (line,) = [line for line in capsys.readouterr().out.splitlines() if reason in line]
    assert line.count("`") == 2, "the reason is code of Markdown, whatever it quotes"


def test_links_and_large_files_are_refused(contributed, monkeypatch, capsys):
    monkeypatch.setattr(contribution, "MAX_BYTES", 100)
    assert run(contributed) == 2
    assert "a file that is too large" in capsys.readouterr().out
    (contributed / store.RECORDS).unlink()
    (contributed / store.RECORDS).symlink_to(REFERENCE / store.RECORDS)
    assert run(contributed) == 2
    assert "not a file" in capsys.readouterr().out


def test_a_name_that_a_shell_would_read_is_refused(contributed, capsys):
    assert run(contributed.rename(contributed.with_name("a;id"))) == 2
    assert "not a name of a machine" in capsys.readouterr().out


def test_earlier_records_are_not_validated_again(contributed, tmp_path, capsys):
    before = f"BEFORE={shutil.copytree(contributed.parent, tmp_path / 'before')}"
    lines = [json.encode(record) for record in (PEER, changed(RIGHT, control=1.0))]
    (contributed / store.RECORDS).write_bytes(b"".join(line + b"\n" for line in lines))
    assert run(contributed, before) == 0
    assert "`mine`: 1 new record, 1 record withdrawn or changed: **valid**" in capsys.readouterr().out
    assert run(tmp_path / "nothing", before) == 0, "the last contribution was withdrawn"


@pytest.mark.parametrize(("digest", "code"), [(RIGHT.digest, 0), ("1 0", 2)])
def test_cells_are_measured_again(contributed, digest, code, monkeypatch, capsys):
    """A contribution whose change stream is another one than here is refused, whatever its own record says."""

    def bench(words):
        settings = dict(word.split("=") for word in words[1:])
        assert (words[0], settings["QUERIES"], settings["ENGINES"]) == ("bench", RIGHT.query, "embedded")
        with store.writing(Path(settings["RESULTS"]) / "here") as writer:
            writer.add([changed(RIGHT, seconds=[2 * RIGHT.best], digest=digest)])
        return 0

    monkeypatch.setattr(validate, "call", bench)
    monkeypatch.setattr(validate, "every_engine", lambda: ("embedded",))
    monkeypatch.setattr(validate.machine, "name", lambda _: "here")
    assert main(["validate", f"RECORDS={contributed}"]) == code
    printed = capsys.readouterr().out
    assert "0.50x" in printed
    assert ("another change stream than here" in printed) == (code == 2)
