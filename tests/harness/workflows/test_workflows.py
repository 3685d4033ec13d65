"""The workflows are valid and need few rights, and their commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.manual import PAGES, Command, code
from support.workflows import DIRECTORY, FILES, commands, inputs, steps, written_permissions

from deltamark.harness.cli.commands import load
from deltamark.harness.cli.parser import Parser

WRITES = {
    "benchmarks": ["contents", "pages", "id-token"], "check": [], "comment": ["pull-requests"], "compare": [],
    "records": [], "release": ["contents"],
}  # fmt: skip
"""The permissions to write of all jobs of a workflow, by its name."""

ACTION = DIRECTORY / "actions/deltamark"


def test_an_audit_of_form_permissions_and_untrusted_text_finds_nothing():
    program = Path(sys.executable).with_name("zizmor")
    words = [program, "--offline", "--no-progress", "--quiet", "--strict-collection", DIRECTORY]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_permissions_to_write_are_few():
    found = {
        Path(path).stem: written_permissions(text) for path, text in FILES.items() if Path(path).name != "action.yml"
    }
    assert found == WRITES


@pytest.mark.parametrize("path", FILES)
def test_no_expression_becomes_text_of_the_shell(path):
    found = steps(FILES[path])
    assert len(found) == len(re.findall(r"^[ -]+run:", FILES[path], re.MULTILINE))
    assert [step for step in found if "${{" in step] == []


@pytest.mark.parametrize("command", commands(), ids=str)
def test_commands_of_workflows_can_be_parsed(command: Command):
    name, *words = command.words
    if name == "setup":
        return
    parser = Parser()
    load(name).options(parser)
    parser.parse_settings(words)


def test_workflows_have_the_commands_that_they_are_for():
    names = {(Path(command.page).stem, command.words[0]) for command in commands()}
    assert names == {
        ("action", "setup"), ("benchmarks", "bench"), ("benchmarks", "docs"), ("benchmarks", "site"),
        ("compare", "compare"), ("records", "validate"), ("release", "report"),
    }  # fmt: skip


def test_comparisons_run_without_make():
    """Make turns exit code 1, a regression, into 2."""
    found = [step for text in FILES.values() for step in steps(text)]
    assert [step for step in found if re.search(r"\bmake (compare|bench)", step)] == []


@pytest.mark.parametrize("path", FILES)
def test_files_that_steps_name_exist(path):
    named = re.findall(r"\.github/[\w/-]+(?:\.\w+)?", "\n".join([*steps(FILES[path]), *_local_actions(FILES[path])]))
    assert [name for name in named if not (DIRECTORY.parent / name).exists()] == []


def _local_actions(text: str) -> list[str]:
    return [f"{name}/action.yml" for name in re.findall(r"uses: \./(\S+)", text)]


def test_the_comment_follows_the_comparison_and_the_validation():
    compare, records, comment = (FILES[f".github/workflows/{name}.yml"] for name in ("compare", "records", "comment"))
    names = [re.search(r"^name: (\w+)$", text, re.MULTILINE)[1] for text in (compare, records)]
    assert f"workflows: [{', '.join(names)}]" in comment
    assert "name: comparison-${{ matrix.suite }}" in compare
    assert "name: comparison-records" in records
    assert "pattern: comparison-*" in comment
    assert "ref:" not in comment, "it must check out the main branch"


def test_contributed_records_are_read_by_code_of_the_base():
    """The checkout of the pull request lies in a folder of its own, which no command but that of the records names."""
    (text,) = [text for path, text in FILES.items() if path.endswith("/records.yml")]
    base, merge = text.split("uses: actions/checkout")[1:]
    assert "ref: ${{ github.event.pull_request.base.sha }}" in base
    assert "path: contribution" in merge
    named = [line for step in steps(text) for line in step.splitlines() if "contribution" in line]
    assert [re.findall(r"\S*contribution\S*", line) for line in named] == [["RECORDS=contribution/results/contributed"]]


def test_measurements_have_the_same_filter():
    compare, benchmarks = (FILES[f".github/workflows/{name}.yml"] for name in ("compare", "benchmarks"))
    assert re.findall("paths-ignore: .*", compare) == re.findall("paths-ignore: .*", benchmarks) != []


def test_the_action_passes_all_of_its_inputs():
    action, script = (ACTION / "action.yml").read_text(), (ACTION / "compare.sh").read_text()
    passed = re.search(r"for name in (.*); do", script)[1].split()
    assert sorted(passed) == sorted(name.upper() for name in inputs(ACTION / "action.yml"))
    assert [name for name in passed if f"{name}: ${{{{ inputs.{name.lower()} }}}}" not in action] == []


def test_the_example_of_the_action_uses_its_inputs():
    (example,) = code("yaml", "docs/regressions.md")
    used = set(re.findall(r"^ {10}(\w+):", example.partition("actions/deltamark@")[2], re.MULTILINE))
    assert {"exec"} <= used <= set(inputs(ACTION / "action.yml"))
    assert "fetch-depth: 2" in example, "the default base is the first parent"


def test_the_manual_names_the_workflows():
    named = re.findall(r"`([a-z]+\.yml)`", PAGES["docs/regressions.md"])
    assert sorted(set(named)) == sorted(f"{name}.yml" for name in WRITES)
