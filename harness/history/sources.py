"""The files with records below a directory, or in a branch of a git repository."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deltamark.errors import DeltamarkError, naming
from deltamark.harness.compare.trees import git, resolve
from deltamark.harness.results.store import RECORDS, SESSIONS


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
