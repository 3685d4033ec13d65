"""The commits of a git repository, by the abbreviations that records contain, and the branches that show them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

HEAD = "HEAD"
ABBREVIATION_CHARACTERS = 12
"""The length of a commit in a record: see harness/results/machine.py."""


class Commit(NamedTuple):
    """A commit. Commits are ordered by their times."""

    committed_s: int
    """The time of the commit, in seconds since 1970."""
    sha: str


def commits(repository: Path) -> Mapping[str, Commit]:
    """Return all commits that a branch or a tag contains; none without a repository."""
    words = (line.split() for line in _git(repository, "log", "--all", "--format=%H %ct"))
    return {sha[:ABBREVIATION_CHARACTERS]: Commit(int(time), sha) for sha, time in words}


def branches(repository: Path, shown: Iterable[Commit]) -> list[str]:
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
    return set(_git(repository, "rev-list", "--first-parent", commit))


def _git(repository: Path, *words: str) -> list[str]:
    """Return the lines that git prints; none if it fails."""
    try:
        ran = subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return ran.stdout.splitlines()
