"""The command that shows the history of records."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from deltamark.datagen.schema import scale_factor
from deltamark.errors import DeltamarkError, naming, unknown
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import add_benchmark, words
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.compare.trees import git
from deltamark.harness.console.console import OUT, say, warn
from deltamark.harness.console.table import counted, text
from deltamark.harness.history.series import MachineRecord, commit_history, comparable, in_branch, in_directory, read
from deltamark.harness.report.sections.history import history_page, sizes, steps_table
from deltamark.harness.results.commits import known_commits, repository_name
from deltamark.harness.system import machine

FILE = "history.html"


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_benchmark(parser)
    add("--sf", type=scale_factor, help="scale factor (default: all)")
    add("--queries", type=words, default=(), metavar="Q,Q", help="queries to show (default: all)")
    add_results(parser)
    add("--branch", default="", metavar="NAME", help="branch of git whose records to read, instead of RESULTS")
    text = "git repository whose commits to show, and of the branch (default: this project)"
    add("--repo", type=Path, default=machine.ROOT, metavar="DIR", help=text)
    add("--output", type=Path, metavar="FILE", help=f"output file (default: {FILE} in RESULTS)")


@command("history", options)
def run(args: argparse.Namespace) -> int:
    """Find the commits at which cells became slower or faster, and draw the history of each cell as one HTML file.

    The records of all machines below RESULTS are read, at any depth: those of make bench, or artifacts that were
    downloaded. BRANCH reads the records that a branch of git has instead, without checking it out. Every commit is a
    point: the median of its runs on one machine. Steps are found by E-divisive; they need about ten commits on one
    machine.

    Commits are ordered by their times in the repository, or by their first record if the repository does not have them.
    """
    repository = _repository(args.repo)
    files = in_branch(args.repo, args.branch) if args.branch else in_directory(args.results)
    measured, foreign = read(files, args.benchmark)
    usable = [each for each in measured if comparable(each)]
    if left_out := foreign + len(measured) - len(usable):
        warn(f"{left_out} records are left out: without numbers, without a commit, or timed in another way")
    selected = _selected(args, _of_repository(usable, repository))
    history = commit_history(selected, known_commits(args.repo, (each.record for each in selected)))
    steps = steps_table(history)
    OUT.out(text(steps) if steps.rows else "no steps\n", highlight=False, end="")
    say(f"{len(selected)} records: {sizes(history)}")
    path = args.output or args.results / FILE
    html = history_page(history, repository)
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8")
    say(f"{path}: {len(html.encode()) / 1e6:.1f} MB")
    return 0


def _repository(directory: Path) -> str:
    """Return the name of the repository of a directory, which must have one unless it is this project's."""
    if directory != machine.ROOT:
        git(directory, "rev-parse", "--git-dir")
    return repository_name(directory)


def _of_repository(measured: Sequence[MachineRecord], repository: str) -> list[MachineRecord]:
    """Return the records whose commits are of a repository; name the other repositories."""
    own = [each for each in measured if each.record.repository == repository]
    others = ", ".join(sorted({each.record.repository for each in measured} - {repository}))
    if others and not own:
        raise DeltamarkError(
            f"no records of the repository {repository}", f"there are some of {others}", "name it: REPO=DIR"
        )
    if others:
        say(f"not shown: {counted(len(measured) - len(own), 'record')} of other repositories: {others}")
    return own


def _selected(args: argparse.Namespace, measured: Sequence[MachineRecord]) -> list[MachineRecord]:
    """Return the records of the selected queries and scale factor; raise an error if there are none."""
    place = f"branch {args.branch}" if args.branch else args.results
    if not measured:
        raise DeltamarkError("no records with numbers and a commit", place, "measure commits with make bench")
    queries = {each.record.query for each in measured}
    for name in args.queries:
        if name not in queries:
            raise unknown("query", name, queries)
    factors = {each.record.sf for each in measured if not args.queries or each.record.query in args.queries}
    if args.sf and str(args.sf) not in factors:
        raise unknown("scale factor", str(args.sf), factors)
    return [
        each
        for each in measured
        if (not args.queries or each.record.query in args.queries) and (not args.sf or each.record.sf == str(args.sf))
    ]
