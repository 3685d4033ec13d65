"""Records of a machine for exports: several engines, runs, scale factors and outcomes, and a repository of commits."""

from __future__ import annotations

import random
import subprocess

from support.harness.records import changed
from support.harness.report_records import RECORDS
from support.harness.suite_records import FACTS
from support.harness.table_records import record
from support.paths import ROOT

from deltamark.harness.results.record import EngineInfo
from deltamark.harness.tables.exports import ExportSource

PEER = EngineInfo("peer 1.2", "c0ffee", "stream")
NAMED = {"verified": "oracle", "commit": "c0ffee", "versions": "deltamark 0.1.0, python 3.11.7, numpy 2.4.6"}
WITH_NUMBERS = [
    record("q01", 1, 1000, 0.25, seconds=[0.5, 0.25, 1.0], cpu=[0.6, 0.3, 1.1], peak_bytes=7_000_000, **NAMED),
    record("q01", 1, 1000, 0.2, workers=2, seconds=[0.2], state_bytes=5, state_rows=3, **NAMED),
    record("q05", 10, 1, 3e-7, engine="duckdb", seconds=[0.0625, 0.03], cut=[0.5, 0.75], **NAMED),
    record("q05", 10, 1, 0.1, engine='exec:a "b", c', external=PEER, outside=[0.2], **NAMED),
    record("q06", 1, 1, 0.1, workload="window:100", **NAMED),
]
WITHOUT_NUMBERS = [
    record("q07", 1, 1000, status="wrong", **NAMED), record("q08", 1, 1000, status="timeout", **NAMED),
    record("q09", 1, 1000, status="failed", seconds=[], **NAMED),
]  # fmt: skip
ALL_RECORDS = [*WITH_NUMBERS, *WITHOUT_NUMBERS]


def at_scale_factor(sf, made):
    return changed(made, sf=sf, cell=made.cell.replace(" sf1 ", f" sf{sf} "))


def source(records=ALL_RECORDS, repository=ROOT):
    return ExportSource([*records], "m", FACTS, repository)


def drawn_records(seed):
    """Return records in a random order, of which some cells were measured again, and some failed then."""
    choice = random.Random(seed)
    known = [*ALL_RECORDS, *RECORDS]
    again = [changed(each, seconds=[choice.random() + 0.1]) for each in choice.sample(known, 5)]
    failed = [changed(each, status="failed", seconds=[]) for each in choice.sample(known, 3)]
    made = [*known, *again, *failed]
    choice.shuffle(made)
    return [changed(each, finished_at=f"2026-01-01T00:00:{number:02}") for number, each in enumerate(made)]


def make_repository(directory):
    """Make a repository with three commits, of which the second is only on a merged branch; return the three."""

    def git(*words):
        names = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
        ran = subprocess.run(["git", *names, *words], cwd=directory, capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    def commit(*words):
        git(*words)
        return git("rev-parse", "HEAD")

    git("init", "--quiet", "--initial-branch=main")
    first = commit("commit", "--quiet", "--allow-empty", "--message=first")
    git("checkout", "--quiet", "-b", "side")
    second = commit("commit", "--quiet", "--allow-empty", "--message=second")
    git("checkout", "--quiet", "main")
    third = commit("merge", "--quiet", "--no-ff", "--message=third", "side")
    git("branch", "--quiet", "-D", "side")
    return first, second, third
