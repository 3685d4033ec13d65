"""The trial of `make compare`: a commit compared with itself, in a clone. The next run gives a verdict."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from deltamark.harness.chaos.running import Command, Ran
from deltamark.harness.compare.gate import Verdict
from deltamark.harness.compare.trees import DIRECTORY, git, snapshot
from deltamark.harness.results.machine import ROOT

CELLS = ("BASE=HEAD", "HEAD=HEAD", "QUERIES=q06", "WORKLOAD=insert", "PHYSICAL=1000")
SILENT: tuple[Verdict, ...] = ("undecided", "improvement", "unchanged")
FILES = {"base", "head", "lock", "summary-tpch.md", "verdict-tpch.txt"}


class CompareTrial:
    def __init__(self, sf: str, data: Path, scratch: Path) -> None:
        self._sf, self._data = sf, data
        self._clone, self._temporary = scratch / "clone", scratch / "temporary"
        self._begun = 0
        git(ROOT, "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(self._clone))
        git(self._clone, "checkout", "--quiet", "--detach", snapshot(ROOT))

    @property
    def command(self) -> Command:
        where = [f"SF={self._sf}", f"DATA={self._data.resolve()}"]
        return Command([sys.executable, "-m", "harness", "compare", *where, *CELLS], self._clone, self._temporary)

    def begin(self) -> None:
        """Start with the work trees of the run before, and every other time without."""
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir(parents=True)
        self._begun += 1
        if self._begun % 2:
            shutil.rmtree(self._clone / DIRECTORY, ignore_errors=True)
            git(self._clone, "worktree", "prune")

    def learn(self) -> None:
        """Nothing is kept: a verdict is that of one comparison."""

    def wrong(self, _struck: Ran, _again: Ran) -> Iterator[str]:
        directory = self._clone / DIRECTORY
        verdict = directory / "verdict-tpch.txt"
        word = verdict.read_text(encoding="utf-8").strip() if verdict.exists() else "none"
        if word not in SILENT:
            yield f"the verdict of a commit and itself is {word}"
        yield from (f"{each.name} was left" for each in directory.iterdir() if each.name not in FILES)
        listed = git(self._clone, "worktree", "list", "--porcelain")
        if listed.count("worktree ") != 3 or "locked" in listed or "prunable" in listed:
            yield f"work trees were left: {listed}"
        for each in ("base", "head"):
            if changed := git(directory / each, "status", "--porcelain"):
                yield f"{each} is not the commit: {changed}"
        if changed := git(self._clone, "status", "--porcelain"):
            yield f"the repository was changed: {changed}"
