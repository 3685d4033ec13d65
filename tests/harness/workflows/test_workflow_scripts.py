"""The scripts of workflows run on this machine, beside fakes of the programs that they call."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from support.paths import ROOT
from support.patience import patient
from support.workflows import DIRECTORY

from deltamark.harness.cli.commands import load
from deltamark.harness.cli.parser import Parser

COMPARE = """#!/usr/bin/env bash
printf '%s\\n' "$@" > words.txt
mkdir -p .compare
[[ -z $VERDICT ]] || echo "$VERDICT" > .compare/verdict-tpch.txt
exit "$CODE"
"""
"""A program in the place of Python that writes its words and a verdict, as a comparison does."""


def run(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, words)], env=os.environ | variables, capture_output=True, text=True, check=False, timeout=patient(60)
    )


@pytest.fixture
def action(tmp_path):
    """Make a copy of the action in a tree of its own, with a program in the place of Python."""
    root = tmp_path / "tree of the action"
    shutil.copytree(DIRECTORY / "actions/deltamark", root / ".github/actions/deltamark")
    program = root / ".venv/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text(COMPARE)
    program.chmod(0o755)
    return root


def compare(root, verdict="", code=0, **variables):
    """Run the script of the action; return its exit code, its outputs, and the settings of the comparison."""
    outputs = root / "outputs"
    outputs.write_text("")
    done = run(
        "bash", root / ".github/actions/deltamark/compare.sh", GITHUB_WORKSPACE="/work space", RUNNER_TEMP="/tmp",
        GITHUB_OUTPUT=str(outputs), VERDICT=verdict, CODE=str(code), **variables,
    )  # fmt: skip
    words = (root / "words.txt").read_text().splitlines()
    assert words[:3] == ["-m", "harness", "compare"]
    found = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    return done.returncode, found, words[3:]


@pytest.mark.parametrize(("verdict", "code"), [("unchanged", 0), ("undecided", 0), ("regression", 1), ("wrong", 2)])
def test_the_action_ends_as_the_comparison_does(action, verdict, code):
    ended, outputs, _ = compare(action, verdict, code, EXEC="engine")
    files = {"summary": f"{action}/.compare/summary-tpch.md", "json": f"{action}/.compare/verdict-tpch.json"}
    assert (ended, outputs) == (code, {"verdict": verdict, **files})


def test_an_error_leaves_no_outputs(action):
    assert compare(action, "", 2, EXEC="engine")[:2] == (2, {})


def test_inputs_reach_the_comparison_as_they_are(action):
    build, program = "cargo build --release && echo '$HOME'", 'target/mine --name `id` "$(id)"'
    _, _, words = compare(action, "unchanged", BASE="HEAD^1", BUILD=build, EXEC=program, QUERIES="q01,q09", SF="")
    data = "DATA=/tmp/deltamark-data"
    assert words == [
        "REPO=/work space", data, "BASE=HEAD^1", f"BUILD={build}", f"EXEC={program}", "QUERIES=q01,q09",
    ]  # fmt: skip
    parser = Parser()
    load("compare").options(parser)
    args = parser.parse_settings(words)
    assert (args.build, args.exec, args.queries) == (build, program, ("q01", "q09"))


def keys(root, *words) -> dict[str, str]:
    done = run("bash", root / ".github/scripts/cache-keys.sh", *words)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_the_keys_of_caches_follow_their_sources(tmp_path):
    for name in (
        ".github/scripts",
        "dataflow/interpreter",
        "dataflow/kernels",
        "dataflow/operators",
        "datagen",
        "peers",
    ):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("requirements.lock", "requirements-build.lock"):
        shutil.copy(ROOT / name, tmp_path)
    first = keys(tmp_path, "tests", "tpch-1")
    assert first == keys(ROOT, "tests", "tpch-1")
    for path, cache in (
        ("dataflow/interpreter/run.py", "kernels"), ("datagen/make.py", "data"),
        ("peers/polars/requirements.txt", "pip"),
    ):  # fmt: skip
        before = keys(tmp_path, "tests", "tpch-1")
        with (tmp_path / path).open("a") as file:
            file.write("# a change\n")
        after = keys(tmp_path, "tests", "tpch-1")
        assert [name for name in after if after[name] != before[name]] == [cache]
    (tmp_path / "requirements.lock").write_text("")
    assert not set(keys(tmp_path, "tests", "tpch-1").values()) & set(after.values())


def test_tests_and_measurements_have_caches_of_their_own():
    tests, measurements = keys(ROOT, "tests", "tpch-1"), keys(ROOT, "measurements", "tpch-1")
    assert [name for name in tests if tests[name] != measurements[name]] == ["pip", "kernels"]
    assert all(" " not in key and "," not in key for key in tests.values())


@pytest.fixture
def remote(tmp_path):
    """Make an empty repository to push to."""
    path = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", path], check=True)
    return path


@pytest.fixture
def records(tmp_path):
    """Make a directory with the records of a machine."""
    machine = tmp_path / "records/some-cpu-4x"
    machine.mkdir(parents=True)
    (machine / "records.jsonl").write_text('{"sf": "0.3"}\n')
    (machine / "sessions.jsonl").write_text("{}\n")
    (machine / "lock").touch()
    return machine.parent


def append(remote, records, **variables):
    return run("bash", DIRECTORY / "scripts/append-records.sh", remote, "benchmarks", records, **variables)


def git(repository, *words) -> str:
    return subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=True).stdout


def test_records_begin_a_branch_and_are_appended_to_it(remote, records):
    for sha in ("abc", "def"):
        done = append(remote, records, GITHUB_SHA=sha)
        assert done.returncode == 0, done.stderr
    assert git(remote, "log", "--format=%s", "benchmarks").splitlines() == ["Add records of def", "Add records of abc"]
    assert git(remote, "ls-tree", "-r", "--name-only", "benchmarks").splitlines() == [
        "some-cpu-4x/records.jsonl", "some-cpu-4x/sessions.jsonl",
    ]  # fmt: skip
    assert git(remote, "show", "benchmarks:some-cpu-4x/records.jsonl") == '{"sf": "0.3"}\n' * 2


def test_a_rejected_push_is_repeated_on_the_new_commit(remote, records, tmp_path):
    """The remote repository refuses the first push, as if another job had pushed meanwhile."""
    assert append(remote, records, GITHUB_SHA="abc").returncode == 0
    hook = remote / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/usr/bin/env bash\n[[ -e {tmp_path}/refused ]] || {{ touch {tmp_path}/refused; exit 1; }}\n")
    hook.chmod(0o755)
    done = append(remote, records, GITHUB_SHA="def")
    assert done.returncode == 0
    assert "push 1 of 5 was rejected" in done.stderr
    assert git(remote, "show", "benchmarks:some-cpu-4x/records.jsonl") == '{"sf": "0.3"}\n' * 2


def test_records_that_do_not_exist_are_an_error(remote, tmp_path):
    done = append(remote, tmp_path / "records")
    assert done.returncode == 2
    assert "no records" in done.stderr
    assert git(remote, "branch") == ""


def test_a_repository_that_cannot_be_read_is_an_error(records, tmp_path):
    assert append(tmp_path / "absent.git", records).returncode == 128
