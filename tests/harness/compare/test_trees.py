"""The sides as git work trees: the current work tree, reuse after a kill, and the lock."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from deltamark.errors import DeltamarkError
from deltamark.harness.cli.main import main
from deltamark.harness.compare.sides import SideRequest, sides
from deltamark.harness.compare.trees import COMMITTER, DIRECTORY, trees

SERVER = Path("deltamark", "harness", "measure", "server.py")


def git(directory, *words):
    subprocess.run(["git", *words], cwd=directory, env=os.environ | COMMITTER, check=True, capture_output=True)


@contextmanager
def both(repository, base, head):
    """Check out base and head."""
    with trees(repository / DIRECTORY, repository, {"base": base, "head": head}) as checked_out:
        yield checked_out["base"], checked_out["head"]


@pytest.fixture
def repository(tmp_path):
    (tmp_path / SERVER).parent.mkdir(parents=True)
    for name, text in {SERVER: "first", "other": "one", ".gitignore": ".compare/\nignored"}.items():
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--initial-branch=main")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--message=first")
    return tmp_path


def test_head_is_the_current_work_tree(repository):
    (repository / "other").write_text("two")
    (repository / "new").write_text("new")
    (repository / "ignored").write_text("secret")
    with both(repository, "main", "") as (base, head):
        (repository / "other").write_text("three")
        assert [(tree.root / "other").read_text() for tree in (base, head)] == ["one", "two"]
        assert (head.root / "new").exists()
        assert not (head.root / "ignored").exists()
        assert head.label == f"head (work tree, {head.commit[:12]})"
    git(repository, "diff", "--cached", "--quiet")


def test_an_unedited_work_tree_is_the_last_commit_and_trees_are_reused(repository):
    with both(repository, "main", "") as (base, head):
        assert base.commit == head.commit
    git(repository, "commit", "--allow-empty", "--message=second")
    with both(repository, "main~1", "main") as (base, head):
        assert base.commit != head.commit


def test_unknown_commits_and_unknown_layouts_are_named(repository):
    with (
        pytest.raises(DeltamarkError, match="no such commit: mian; did you mean main"),
        both(repository, "mian", ""),
    ):
        pass
    git(repository, "rm", str(SERVER))
    git(repository, "commit", "--message=second")
    cause = r"base \(main, .*cannot be measured: it has no deltamark.harness.measure.server"
    with (
        pytest.raises(DeltamarkError, match=cause),
        sides(repository, SideRequest("main"), SideRequest("main~1"), "tpch"),
    ):
        pass


def test_commits_from_before_motifs_were_compared_are_named(repository):
    cause = r"base \(main, .*cannot be measured: it has no deltamark.harness.compare.motifs"
    with pytest.raises(DeltamarkError, match=cause), sides(repository, SideRequest("main"), SideRequest(""), "graph"):
        pass


def _is_locked(_root, admin):
    (admin / "index.lock").touch()


def _is_half_made(root, admin):
    (root / ".git").unlink()
    (admin / "locked").write_text("initializing")


def _is_locked_by_git(_root, admin):
    (admin / "locked").write_text("initializing")


def _has_lost_its_record(_root, admin):
    shutil.rmtree(admin)


def _has_an_unreadable_index(_root, admin):
    (admin / "index").write_bytes(b"DIRC")


def _has_files_of_another_commit(root, _admin):
    (root / SERVER).with_name("later.py").write_text("raise SystemExit")
    (root / "other").unlink()


@pytest.mark.parametrize(
    "killed",
    [_is_locked, _is_half_made, _has_lost_its_record, _has_an_unreadable_index, _has_files_of_another_commit],
)
@pytest.mark.parametrize("side", ["base", "head"])
def test_a_work_tree_that_a_killed_comparison_left_is_made_whole(repository, killed, side):
    with both(repository, "main", "main"):
        pass
    killed(repository / ".compare" / side, repository / ".git" / "worktrees" / side)
    git(repository, "commit", "--allow-empty", "--message=second")
    with both(repository, "main", "main") as checked_out:
        for tree in checked_out:
            files = {str(path.relative_to(tree.root)) for path in tree.root.rglob("*") if path.is_file()}
            assert files == {".git", ".gitignore", "other", str(SERVER)}
            assert (tree.root / "other").read_text() == "one"
    assert _listed(repository) == [repository, *_roots(repository)]


def _listed(repository):
    """Return the work trees that a repository lists."""
    words = ["git", "worktree", "list", "--porcelain"]
    printed = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=True).stdout
    return [Path(line.split(" ", 1)[1]) for line in printed.splitlines() if line.startswith("worktree ")]


def _roots(repository):
    return [repository / DIRECTORY / name for name in ("base", "head")]


def _is_whole(_root, _admin):
    pass


@pytest.mark.parametrize(
    "killed", [_is_whole, _is_locked, _is_locked_by_git, _has_an_unreadable_index, _has_lost_its_record]
)
def test_a_repository_does_not_list_work_trees_that_another_one_has_replaced(repository, tmp_path_factory, killed):
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "--initial-branch=main")
    git(other, "commit", "--allow-empty", "--message=first")
    with trees(repository / DIRECTORY, other, {"base": "main", "head": "main"}):
        assert _listed(other) == [other, *_roots(repository)]
    killed(repository / DIRECTORY / "base", other / ".git" / "worktrees" / "base")
    with both(repository, "main", "main"):
        assert _listed(other) == [other]
        assert _listed(repository) == [repository, *_roots(repository)]


def test_git_keeps_the_lock_of_a_killed_comparison(repository):
    """git still writes to the work trees, so the next comparison waits for it."""
    (repository / ".compare").mkdir()
    script = "import fcntl, subprocess; lock = open('.compare/lock', 'w'); fcntl.flock(lock, fcntl.LOCK_EX); "
    script += "subprocess.Popen(['sh', '-c', 'sleep 0.5; touch .compare/ended'], pass_fds=[lock.fileno()])"
    subprocess.run(["python3", "-c", script], cwd=repository, check=True)
    with both(repository, "main", "") as (base, _):
        assert (repository / ".compare" / "ended").exists()
        assert (base.root / SERVER).exists()


def test_two_comparisons_do_not_disturb_each_other(repository, monkeypatch):
    monkeypatch.setattr("deltamark.harness.compare.trees.LOCK_TIMEOUT_S", 0.1)
    with (
        both(repository, "main", ""),
        pytest.raises(DeltamarkError, match="a comparison is running"),
        both(repository, "main", ""),
    ):
        pass


def test_a_directory_without_a_repository_is_not_a_missing_commit(tmp_path):
    with (
        pytest.raises(DeltamarkError, match="git rev-parse stopped: fatal: not a git repository"),
        both(tmp_path, "main", ""),
    ):
        pass


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["BASE=mian"], "no such commit: mian; did you mean main"),
        (["QUERIES=q77"], "unknown query: q77"),
        (["WORKLOAD=windov:9"], "unknown workload: windov:9"),
        (["VARIANT=,diff"], "unknown variant of q01: diff; did you mean diffs"),
        (["QUERIES=q01,q09", "VARIANT=diffs"], "unknown variant of q09: diffs; there are plain, sql"),
        (["SUITE=graph", "BASE=mian"], "no such commit: mian; did you mean main"),
    ],
)
def test_a_wrong_setting_is_found_before_data_is_made_and_leaves_no_verdict(
    repository, words, message, capsys, monkeypatch
):
    motifs = repository / "deltamark" / "harness" / "compare" / "motifs.py"
    motifs.parent.mkdir()
    motifs.touch()
    monkeypatch.setattr("deltamark.harness.system.machine.ROOT", repository)
    stale = repository / ".compare" / f"verdict-{'graph' if 'SUITE=graph' in words else 'tpch'}.txt"
    stale.parent.mkdir()
    stale.write_text("unchanged\n")
    assert main(["compare", f"DATA={repository / 'data'}", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (repository / "data").exists()
    assert not stale.exists()
