"""One comment has the summaries of a comparison, and nothing in their files can do harm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.harness.fake_github import FakeGitHub
from support.workflows import DIRECTORY

SCRIPT = DIRECTORY / "scripts/comment.py"
BOT, MARKER, OF_RECORDS = "github-actions[bot]", "<!-- deltamark compare -->", "<!-- deltamark records -->"
RUN = "https://github.com/owner/name/actions/runs/5"


@pytest.fixture
def github(tmp_path):
    directory = tmp_path / "bin"
    directory.mkdir()
    fake = FakeGitHub(directory)
    fake.set({"7": "abc"}, {"reader": "a remark"})
    return fake


@pytest.fixture
def comparison(tmp_path):
    """Make the directory of a comparison of pull request 7."""
    directory = tmp_path / "comparison"
    directory.mkdir()
    (directory / "pull-request.txt").write_text("7\n")
    (directory / "summary-tpch.md").write_text("queries are as fast")
    (directory / "summary-graph.md").write_text("motifs are as fast")
    return directory


def comment(github, comparison, workflow="compare") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "PATH": f"{github.directory}{os.pathsep}{os.environ['PATH']}", "GITHUB_REPOSITORY": "owner/name",
        "HEAD_SHA": "abc", "RUN_URL": RUN, "GH_TOKEN": "none", "WORKFLOW": workflow,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, SCRIPT, comparison], env=environment, capture_output=True, text=True, check=False
    )


def test_summaries_become_one_comment(github, comparison):
    assert comment(github, comparison).returncode == 0
    others, (author, text) = github.comments
    assert others == ("reader", "a remark")
    assert author == BOT
    assert text.startswith(f"{MARKER}\nqueries are as fast\nmotifs are as fast\n")
    assert RUN in text


def test_the_comment_is_updated(github, comparison):
    comment(github, comparison)
    (comparison / "summary-tpch.md").write_text("queries are slower")
    assert comment(github, comparison).returncode == 0
    assert len(github.comments) == 2
    assert "queries are slower" in github.comments[1][1]
    assert "queries are as fast" not in github.comments[1][1]


def test_records_have_a_comment_of_their_own(github, comparison):
    comment(github, comparison)
    for file in comparison.glob("*.md"):
        file.unlink()
    (comparison / "summary-records.md").write_text("2 records are valid")
    assert comment(github, comparison, "records").returncode == 0
    (_, first), (_, second) = github.comments[1:]
    assert first.startswith(f"{MARKER}\nqueries are as fast\n")
    assert second.startswith(f"{OF_RECORDS}\n2 records are valid\n")


def test_a_comment_of_another_author_with_the_marker_stays(github, comparison):
    github.set({"7": "abc"}, {"reader": f"{MARKER} mine", BOT: "of another workflow"})
    comment(github, comparison)
    assert github.comments[:2] == [("reader", f"{MARKER} mine"), (BOT, "of another workflow")]
    assert len(github.comments) == 3


def test_a_comparison_without_summary_is_said_to_have_none(github, comparison):
    for file in comparison.glob("*.md"):
        file.unlink()
    assert comment(github, comparison).returncode == 0
    assert "no verdict" in github.comments[1][1]


@pytest.mark.parametrize("number", ["", "7; echo", "7/../8", "$(id)", "-7", "0", "\u0667", "7\n8", "9" * 11])
def test_a_number_that_is_none_is_refused(github, comparison, number):
    (comparison / "pull-request.txt").write_text(number, encoding="utf-8")
    done = comment(github, comparison)
    assert done.returncode == 2
    assert "not the number of a pull request" in done.stderr
    assert len(github.comments) == 1


def test_a_run_of_another_commit_writes_nothing(github, comparison):
    github.set({"7": "def"}, {})
    done = comment(github, comparison)
    assert (done.returncode, github.comments) == (0, [])
    assert "abc is not the head of pull request 7, which is def" in done.stdout


@pytest.mark.parametrize("name", ["pull-request.txt", "summary-tpch.md"])
def test_links_are_not_followed(github, comparison, tmp_path, name):
    secret = tmp_path / "secret"
    secret.write_text("7")
    (comparison / name).unlink()
    (comparison / name).symlink_to(secret)
    done = comment(github, comparison)
    assert done.returncode == 2
    assert f"not a file: {name}" in done.stderr
    assert len(github.comments) == 1


def test_a_long_summary_is_cut_and_mentions_no_user(github, comparison):
    (comparison / "summary-tpch.md").write_bytes(b"@reader \xff" + b"@" * 100_000)
    assert comment(github, comparison).returncode == 0
    text = github.comments[1][1]
    assert "(cut)" in text
    assert "@reader" not in text
    assert "reader" in text


def test_a_refusal_of_github_fails(github, comparison):
    (comparison / "pull-request.txt").write_text("8")
    assert comment(github, comparison).returncode == 1
