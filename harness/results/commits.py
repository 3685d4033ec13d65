"""The commits of records, and their order: by the time of the commit if the repository has it.

The time of a commit that the repository does not have is that of its first record. Edits of a commit (`c0ffee+`) follow
the commit. Times of commits may contradict their ancestry after a rebase; the order then does, too.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deltamark.harness.results.record import PROJECT
from deltamark.harness.system.machine import ROOT

HEAD = "HEAD"
DIRTY = "+"
COMMIT = r"[0-9a-f]{4,40}\+?"
"""The commit of a record; a record that was measured without git has another word."""
SHORT = 7
"""The digits of a commit that readers see."""


@dataclass(frozen=True, order=True)
class KnownCommit:
    """The facts that a repository has about a commit. time: seconds since 1970; sha: the full name."""

    time: float
    sha: str
    subject: str


@dataclass(frozen=True)
class Commit:
    """A measured commit. name: as in the records."""

    name: str
    time: float
    subject: str = ""

    @property
    def is_dirty(self) -> bool:
        """Whether the work tree had edits that were not committed."""
        return self.name.endswith(DIRTY)

    @property
    def base(self) -> str:
        return self.name.removesuffix(DIRTY)

    @property
    def short(self) -> str:
        return self.base[:SHORT] + DIRTY * self.is_dirty

    @property
    def date(self) -> str:
        return datetime.fromtimestamp(self.time, UTC).date().isoformat()


def ordered_commits(first: Mapping[str, float], known: Mapping[str, KnownCommit]) -> list[Commit]:
    """Return commits in the order of time.

    first: the times of their first records, by name. known: facts by the name of a commit without edits.
    """
    commits = [_commit(name, time, known) for name, time in first.items()]
    return sorted(commits, key=lambda commit: (commit.time, commit.base, commit.is_dirty))


def _commit(name: str, first: float, known: Mapping[str, KnownCommit]) -> Commit:
    facts = known.get(name.removesuffix(DIRTY))
    return Commit(name, facts.time, facts.subject) if facts else Commit(name, first)


def known_commits(repository: Path, commits: Iterable[str]) -> dict[str, KnownCommit]:
    """Look up the commits of records; a directory without a repository knows none."""
    names = sorted({name.removesuffix(DIRTY) for name in commits if re.fullmatch(COMMIT, name)})
    checked = _lines(repository, "cat-file", "--batch-check=%(objecttype) %(objectname)", given=names)
    found = dict(pair for pair in zip(names, checked, strict=False) if pair[1].startswith("commit "))
    full = {name: line.removeprefix("commit ") for name, line in found.items()}
    facts = _facts(repository, full.values()) if full else {}
    return {name: facts[sha] for name, sha in full.items()}


def _facts(repository: Path, commits: Iterable[str]) -> dict[str, KnownCommit]:
    """Return the facts of existing commits, by their full names."""
    printed = _lines(repository, "log", "--no-walk=unsorted", "--stdin", "--format=%H %ct %s", given=commits)
    lines = (line.split(" ", 2) for line in printed)
    return {sha: KnownCommit(float(time), sha, subject) for sha, time, subject in lines}


def repository_name(directory: Path) -> str:
    """Return the name of the git repository of a directory: that of its remote `origin`, or else of its own directory.

    Clones and work trees of a repository have one name, wherever they lie.
    """
    common = _common_directory(directory)
    if directory == ROOT or common == _common_directory(ROOT):
        return PROJECT
    origin = _lines(directory, "remote", "get-url", "origin")
    place = next(iter([*origin, *common]), str(directory.resolve()))
    return re.split("[/:]", place.removesuffix("/").removesuffix("/.git"))[-1].removesuffix(".git")


def _common_directory(directory: Path) -> list[str]:
    return _lines(directory, "rev-parse", "--path-format=absolute", "--git-common-dir")


def tracked(repository: Path, pattern: str) -> list[str]:
    """Return the files of a repository that match a pattern of git; none without a repository."""
    return _lines(repository, "ls-files", "--", pattern)


def reachable(repository: Path) -> set[str]:
    """Return the full names of all commits that a branch or a tag contains; none without a repository."""
    return {*_lines(repository, "rev-list", "--all")}


def branches(repository: Path, shown: Iterable[KnownCommit]) -> list[str]:
    """Return HEAD, and commits that serve as further branches, whose first-parent histories contain the shown commits.

    A commit that was merged into HEAD is not in the first-parent history of HEAD.
    """
    names, contained = [HEAD], _first_parents(repository, HEAD)
    for commit in sorted(shown, reverse=True):
        if commit.sha not in contained:
            names.append(commit.sha)
            contained |= _first_parents(repository, commit.sha)
    return names


def _first_parents(repository: Path, commit: str) -> set[str]:
    return {*_lines(repository, "rev-list", "--first-parent", commit)}


def _lines(repository: Path, *words: str, given: Iterable[str] = ()) -> list[str]:
    """Run git with lines as its input; return the lines that it prints, none if it fails."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=repository, input="".join(f"{line}\n" for line in given), capture_output=True,
            encoding="utf-8", errors="replace", check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.split("\n")[:-1]
