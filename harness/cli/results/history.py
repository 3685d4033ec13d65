"""The command that shows the history of records."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deltamark.datagen.schema import scale_factor
from deltamark.errors import DeltamarkError, naming, unknown
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.cli.commands import command
from deltamark.harness.cli.options import add_benchmark, words
from deltamark.harness.cli.sweep_options import add_results
from deltamark.harness.compare.trees import git, resolve
from deltamark.harness.console.console import OUT, say, warn
from deltamark.harness.console.table import counted, text
from deltamark.harness.report.sections.history import history_page, sizes, steps_table
from deltamark.harness.results.commits import known_commits, repository_name
from deltamark.harness.results.record import of_queries
from deltamark.harness.results.store import RECORDS, SESSIONS, complete_lines, read_lines, read_sessions
from deltamark.harness.system import machine
from deltamark.harness.tables.history import Measurements, commit_history, relation
from deltamark.harness.tables.relation import Relations, listed, literal

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
    parts, foreign = read(files, args.benchmark)
    db = relation(parts)
    ((measured, usable),) = db.rows("SELECT (SELECT count(*) FROM measured), (SELECT count(*) FROM comparable)")
    if left_out := foreign + measured - usable:
        warn(f"{left_out} records are left out: without numbers, without a commit, or timed in another way")
    where = _selected(args, db, _of_repository(db, repository))
    history = commit_history(db, known_commits(args.repo, db.commits), where)
    steps = steps_table(history)
    OUT.out(text(steps) if steps.rows else "no steps\n", highlight=False, end="")
    ((selected,),) = db.rows(f"SELECT count(*) FROM comparable WHERE {where}")
    say(f"{counted(selected, 'record')}: {sizes(history)}")
    path = args.output or args.results / FILE
    html = history_page(history, repository)
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8")
    say(f"{path}: {len(html.encode()) / 1e6:.1f} MB")
    return 0


@dataclass(frozen=True)
class RecordFiles:
    """The contents of the files of one machine. path: that of the records, for errors."""

    path: Path
    records: bytes
    sessions: bytes


def in_directory(directory: Path) -> list[RecordFiles]:
    """Read all files of records at any depth below a directory."""
    paths = sorted(directory.rglob(RECORDS))
    if not paths:
        remedy = "make bench writes records there, or name another directory: RESULTS=DIR"
        raise DeltamarkError(f"no {RECORDS} in a directory", directory, remedy)
    return [RecordFiles(path, _content(path), _content(path.with_name(SESSIONS))) for path in paths]


def _content(path: Path) -> bytes:
    with naming(path):
        return path.read_bytes() if path.exists() else b""


def in_branch(repository: Path, branch: str) -> list[RecordFiles]:
    """Read all files of records in a branch, or in another commit."""
    commit = resolve(repository, branch)
    names = git(repository, "ls-tree", "-r", "-z", "--full-tree", "--name-only", commit).split("\0")
    paths = [path for path in map(Path, names) if path.name in (RECORDS, SESSIONS)]
    contents = _contents(repository, commit, paths)
    if not any(path.name == RECORDS for path in paths):
        raise DeltamarkError(f"no {RECORDS} in a branch", branch, "commit records to it, or name another: BRANCH=NAME")
    return [
        RecordFiles(Path(f"{branch}:{path}"), content, contents.get(path.with_name(SESSIONS), b""))
        for path, content in contents.items()
        if path.name == RECORDS
    ]


def _contents(repository: Path, commit: str, paths: Iterable[Path]) -> Mapping[Path, bytes]:
    """Read files of a commit by one process of git."""
    paths = list(paths)
    requests = "".join(f"{commit}:{path}\n" for path in paths)
    reading = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=repository, input=requests.encode(), capture_output=True, check=True
    )
    return dict(zip(paths, _blobs(reading.stdout), strict=True))


def _blobs(output: bytes) -> Iterator[bytes]:
    """Split the output of `cat-file --batch`: before each object a line with its size, and after it an empty line."""
    at = 0
    while at < len(output):
        start = output.index(b"\n", at) + 1
        size = int(output[at:start].split()[-1])
        yield output[start : start + size]
        at = start + size + 1


def read(files: Iterable[RecordFiles], benchmark: str = DEFAULT) -> tuple[list[Measurements], int]:
    """Read the records of a benchmark from files; return them, and the number of lines of other versions."""
    parts: list[Measurements] = []
    foreign = 0
    for each in files:
        stored = read_lines(complete_lines(each.records), each.path)
        foreign += stored.foreign
        sessions = read_sessions(complete_lines(each.sessions), each.path.with_name(SESSIONS))
        parts.append((of_queries(stored.records, "", benchmark), sessions))
    return parts, foreign


def _repository(directory: Path) -> str:
    """Return the name of the repository of a directory, which must have one unless it is this project's."""
    if directory != machine.ROOT:
        git(directory, "rev-parse", "--git-dir")
    return repository_name(directory)


def _of_repository(db: Relations, repository: str) -> str:
    """Return the condition of records whose commits are of a repository; name the other repositories."""
    counts = dict(db.rows("SELECT repository, count(*) FROM comparable GROUP BY repository ORDER BY repository"))
    own = counts.pop(repository, 0)
    others = ", ".join(counts)
    if others and not own:
        raise DeltamarkError(
            f"no records of the repository {repository}", f"there are some of {others}", "name it: REPO=DIR"
        )
    if others:
        say(f"not shown: {counted(sum(counts.values()), 'record')} of other repositories: {others}")
    return f"repository = {literal(repository)}"


def _selected(args: argparse.Namespace, db: Relations, where: str) -> str:
    """Return the condition of records of the selected queries and scale factor; raise an error if there are none."""
    queries = {query for (query,) in db.rows(f"SELECT DISTINCT query FROM comparable WHERE {where}")}
    if not queries:
        place = f"branch {args.branch}" if args.branch else args.results
        raise DeltamarkError("no records with numbers and a commit", place, "measure commits with make bench")
    for name in args.queries:
        if name not in queries:
            raise unknown("query", name, queries)
    if args.queries:
        where += f" AND query IN {listed(args.queries)}"
    factors = {sf for (sf,) in db.rows(f"SELECT DISTINCT sf FROM comparable WHERE {where}")}
    if args.sf and str(args.sf) not in factors:
        raise unknown("scale factor", str(args.sf), factors)
    return f"{where} AND sf = {literal(str(args.sf))}" if args.sf else where
