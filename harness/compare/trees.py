"""Commits in git work trees, `.compare/base` and `.compare/head`, which later comparisons reuse with their compiled
kernels.

The current work tree is also turned into a commit, which no branch contains: edits made during a comparison do not
change what is measured.
"""

from __future__ import annotations

import difflib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from deltamark.datagen.scratch import scratch
from deltamark.errors import DeltamarkError

SideName = Literal["base", "head"]

DIRECTORY = ".compare"
LOCK_TIMEOUT_S, LOCK_POLL_S = 2.0, 0.1
"""The time that git may outlive a killed comparison, which was always enough in trials, and the poll interval."""

REFERENCE_PREFIXES = ("refs/heads", "refs/remotes", "refs/tags")
COMMITTER = {f"GIT_{role}_{field}": "compare" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
"""The identity in snapshot commits: git may have none configured."""


@dataclass(frozen=True)
class Tree:
    """A commit that is checked out."""

    name: SideName
    commit: str
    label: str
    """The name and the commit for readers: `base (main, 0b7d7d8a1c2f)`."""
    root: Path


@contextmanager
def trees(directory: Path, repository: Path, references: Mapping[SideName, str]) -> Iterator[dict[SideName, Tree]]:
    """Check out a commit for each side below a directory; an empty reference is the current work tree.

    No other comparison may run at the same time, even one of engines alone, without a commit.
    """
    commits = {name: resolve(repository, each) if each else snapshot(repository) for name, each in references.items()}
    directory.mkdir(exist_ok=True)
    with (directory / "lock").open("w", encoding="utf-8") as lock:
        _acquire(lock)
        checkout = Checkout(repository, directory, lock.fileno())
        yield {name: checkout.tree(name, commit, references[name]) for name, commit in commits.items()}


def _acquire(lock: IO[str]) -> None:
    """Lock the work trees. A git process that outlived a killed comparison may hold the lock for a moment."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                remedy = "wait for it: two would disturb each other"
                raise DeltamarkError("a comparison is running", Path(lock.name).parent, remedy) from None
            time.sleep(LOCK_POLL_S)


def resolve(repository: Path, name: str) -> str:
    """Return the commit of a reference."""
    git(repository, "rev-parse", "--git-dir")  # a directory without a repository has an error of its own
    try:
        return git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except DeltamarkError:
        names = git(repository, "for-each-ref", "--format=%(refname:short)", *REFERENCE_PREFIXES).splitlines()
        near = difflib.get_close_matches(name, names, n=3)
        guess = f"did you mean {', '.join(near)}" if near else "name a commit, branch or tag of this clone"
        raise DeltamarkError("no such commit", name, f"{guess} (fetch it if the clone is shallow)") from None


def snapshot(repository: Path) -> str:
    """Return a commit of all files of the work tree that are not ignored: HEAD if nothing has changed."""
    with scratch() as directory:
        own_index = COMMITTER | {"GIT_INDEX_FILE": str(directory / "index")}
        git(repository, "read-tree", "HEAD", variables=own_index)
        git(repository, "add", "--all", variables=own_index)
        tree = git(repository, "write-tree", variables=own_index)
        if tree == git(repository, "rev-parse", "HEAD^{tree}"):
            return git(repository, "rev-parse", "HEAD")
        message = "the work tree as it was"
        return git(repository, "commit-tree", tree, "-p", "HEAD", "-m", message, variables=own_index)


@dataclass(frozen=True)
class Checkout:
    """Checks commits out. git inherits the lock, so the work trees stay locked until it has ended."""

    repository: Path
    directory: Path
    lock: int

    def tree(self, name: SideName, commit: str, reference: str) -> Tree:
        root = self.directory / name
        if not self._reused(root, commit):
            with suppress(DeltamarkError):  # it has no record, or a damaged one
                self._unregister(root)
            shutil.rmtree(root, ignore_errors=True)
            self._git(self.repository, "worktree", "prune")
            add = ("worktree", "add", "--quiet", "--force", "--force", "--detach", str(root), commit)
            self._git(self.repository, *add)
        return Tree(name, commit, f"{name} ({reference or 'work tree'}, {commit[:12]})", root)

    def _reused(self, root: Path, commit: str) -> bool:
        """Check a commit out in an existing work tree; return whether that was possible.

        A comparison that was killed while git was writing may leave a work tree incomplete.
        """
        if not (root / ".git").exists():
            return False
        try:
            self._git(root, "checkout", "--quiet", "--force", "--detach", commit)
            self._git(root, "clean", "--quiet", "--force", "-d")
        except DeltamarkError:
            return False
        return True

    def _unregister(self, root: Path) -> None:
        """Remove a work tree from the list of its repository, which may be another one than this.

        The list is right from then on, even if the comparison is killed before the files are removed.
        """
        if not (root / ".git").is_file():
            return
        owner = Path(self._git(root, "rev-parse", "--path-format=absolute", "--git-common-dir"))
        with suppress(DeltamarkError):  # it is locked only if a comparison was killed while git was making it
            self._git(root, "worktree", "unlock", str(root))
        (root / ".git").unlink()
        self._git(owner, "worktree", "prune")

    def _git(self, directory: Path, *words: str) -> str:
        return git(directory, *words, inherited=[self.lock])


def git(directory: Path, *words: str, variables: Mapping[str, str] | None = None, inherited: Sequence[int] = ()) -> str:
    """Run git; return its output. inherited: open files that git keeps open, and so locked, until it has ended."""
    if not directory.is_dir():
        raise DeltamarkError("no such directory", directory, "name the directory of a git repository")
    try:
        process = subprocess.run(
            ["git", *words], cwd=directory, env=os.environ | dict(variables or {}), capture_output=True, text=True,
            check=True, pass_fds=inherited,
        )  # fmt: skip
    except FileNotFoundError:
        raise DeltamarkError("commits are read by git", "there is no git", "install git") from None
    except subprocess.CalledProcessError as error:
        message = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        raise DeltamarkError(f"git {words[0]} stopped", message, f"see git status in {directory}") from error
    return process.stdout.strip()
