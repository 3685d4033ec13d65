"""The sides as git work trees: `.compare/base` and `.compare/head`, kept, so that what is compiled need not be again.

The work tree as it is becomes a commit too, that no branch knows: what is edited while the gate runs takes no part.
"""

from __future__ import annotations

import difflib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from deltamark.datagen.scratch import scratch
from deltamark.errors import DeltamarkError
from deltamark.harness.compare.layouts import LAYOUTS, Layout, Suite

Name = Literal["base", "head"]

DIRECTORY = ".compare"
OUTLIVED, POLL = 2.0, 0.1
"""Seconds that git may outlive a comparison, and between looks for its end."""

KINDS_OF_REFS = ("refs/heads", "refs/remotes", "refs/tags")
NOBODY = {f"GIT_{who}_{what}": "compare" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@dataclass(frozen=True)
class Tree:
    name: Name
    commit: str
    label: str
    """The name and the commit as a reader sees them: `base (main, 0b7d7d8a1c2f)`."""
    root: Path
    layout: Layout


@contextmanager
def trees(repository: Path, base: str, head: str, *, suite: Suite) -> Iterator[tuple[Tree, Tree]]:
    """Check out two commits that can measure a suite; an empty `head` is the work tree as it is.

    No other comparison may run at the same time.
    """
    directory = repository / DIRECTORY
    wanted = resolve(repository, base), resolve(repository, head) if head else snapshot(repository)
    directory.mkdir(exist_ok=True)
    with (directory / "lock").open("w", encoding="utf-8") as lock:
        _take(lock)
        checkout = Checkout(repository, lock.fileno(), suite)
        yield checkout.tree("base", wanted[0], base), checkout.tree("head", wanted[1], head or "work tree")


def _take(lock: IO[str]) -> None:
    """Lock the work trees. git may have outlived a comparison that was killed: it has the lock too, for a moment."""
    until = time.monotonic() + OUTLIVED
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < until:
                time.sleep(POLL)
                continue
            remedy = "wait for it: two would disturb each other"
            raise DeltamarkError("a comparison is running", Path(lock.name).parent, remedy) from None
        return


def resolve(repository: Path, name: str) -> str:
    """Return the commit that a name means."""
    git(repository, "rev-parse", "--git-dir")  # a directory without a repository has an error of its own
    try:
        return git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except DeltamarkError:
        names = git(repository, "for-each-ref", "--format=%(refname:short)", *KINDS_OF_REFS).splitlines()
        near = difflib.get_close_matches(name, names, n=3)
        guess = f"did you mean {', '.join(near)}" if near else "name a commit, branch or tag of this clone: BASE=main"
        raise DeltamarkError("no such commit", name, f"{guess} (fetch it, where the clone is shallow)") from None


def snapshot(repository: Path) -> str:
    """Make a commit of the work tree with all that is not ignored; HEAD, where that is the same."""
    with scratch() as directory:
        apart = NOBODY | {"GIT_INDEX_FILE": str(directory / "index")}
        git(repository, "read-tree", "HEAD", more=apart)
        git(repository, "add", "--all", more=apart)
        tree = git(repository, "write-tree", more=apart)
        if tree == git(repository, "rev-parse", "HEAD^{tree}"):
            return git(repository, "rev-parse", "HEAD")
        return git(repository, "commit-tree", tree, "-p", "HEAD", "-m", "the work tree as it was", more=apart)


@dataclass(frozen=True)
class Checkout:
    """Checks commits out, and keeps the work trees locked for as long as git writes to them."""

    repository: Path
    lock: int
    suite: Suite

    def tree(self, name: Name, commit: str, reference: str) -> Tree:
        root = self.repository / DIRECTORY / name
        if not self._turned_to(root, commit):
            shutil.rmtree(root, ignore_errors=True)
            self._git(self.repository, "worktree", "prune")
            add = ("worktree", "add", "--quiet", "--force", "--force", "--detach", str(root), commit)
            self._git(self.repository, *add)
        label = f"{name} ({reference}, {commit[:12]})"
        return Tree(name, commit, label, root, _layout(root, self.suite, label))

    def _turned_to(self, root: Path, commit: str) -> bool:
        """Check a commit out in a work tree, if there is a whole one: a comparison may have been killed while git made
        it or wrote to it.
        """
        if not (root / ".git").exists():
            return False
        try:
            self._git(root, "checkout", "--quiet", "--force", "--detach", commit)
            self._git(root, "clean", "--quiet", "--force", "-d")
        except DeltamarkError:
            return False
        return True

    def _git(self, directory: Path, *words: str) -> None:
        git(directory, *words, keeping=[self.lock])


def _layout(root: Path, suite: Suite, label: str) -> Layout:
    """Return the newest known layout that fits a work tree."""
    for layout in LAYOUTS[suite]:
        if layout.fits(root):
            return layout
    modules = " nor ".join(layout.server for layout in LAYOUTS[suite])
    raise DeltamarkError(f"{label} cannot be measured", f"it has neither {modules}", "name a later commit")


def git(directory: Path, *words: str, more: Mapping[str, str] | None = None, keeping: Sequence[int] = ()) -> str:
    """Run git; return what it prints. keeping: files that stay open, and locked, until git has ended."""
    environment = os.environ | dict(more or {})
    try:
        ran = subprocess.run(
            ["git", *words], cwd=directory, env=environment, capture_output=True, text=True, check=True,
            pass_fds=keeping,
        )  # fmt: skip
    except FileNotFoundError:
        raise DeltamarkError("sides are git work trees", "there is no git", "install git") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        raise DeltamarkError(f"git {words[0]} stopped", said, f"see git status in {directory}") from error
    return ran.stdout.strip()
