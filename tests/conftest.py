"""The settings and fixtures of all tests: generated data, made once in each run."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from support.front_end import shared_front_end
from support.harness.local_tasks import tasks_in_process
from support.paths import ROOT
from support.patience import measure_patience, patient

from deltamark.dataflow.kernels import compiled_before
from deltamark.dataflow.sql import query
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted, make_data
from deltamark.harness.console.progress import ensure_compiled

SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Options of Java, which otherwise compiles code of Spark again that a test runs for seconds, and verifies the classes
of Spark. Measured: the tests of motifs on Spark take 43 CPU seconds instead of 95 without the second compilation. A
session with three small jobs takes 12.4 CPU seconds instead of 15.0 without verification.
"""

HANG_S = 600
"""The time after which a test hangs. The longest takes 35 s on an idle machine."""

STDERR = pytest.StashKey[int]()
"""The key of the standard error of this process, to which a test cannot write."""

settings.register_profile("deltamark", deadline=None, max_examples=20)
settings.load_profile("deltamark")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-case", action="store_true", help="run every case of the tests that draw their cases")


def pytest_configure(config: pytest.Config) -> None:
    """Obey Ctrl-C, which tests send: a process that a shell has started in the background ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED_JVM)
    measure_patience()
    config.stash[STDERR] = os.dup(2)
    sys.dont_write_bytecode = False  # otherwise each of the processes that tests start compiles what it imports
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Compile the kernels once, before several processes need them and each compiles them all.

    The processes that run the tests collect them meanwhile: the kernel that is compiled last occupies one core.
    """
    if not hasattr(session.config, "workerinput") and not session.config.getoption("collectonly"):
        ensure_compiled()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let one process after the other collect the tests while the kernels are compiled.

    The first one compiles the modules of the tests and of large packages. Measured: 14 CPU seconds instead of 7.
    """
    if not hasattr(session.config, "workerinput") or compiled_before():
        return (yield)
    with (session.config._tmp_path_factory.getbasetemp().parent / "collection").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End a test that hangs, and show what its threads execute. (The limit of pytest's own plugin is a constant.)"""
    faulthandler.dump_traceback_later(patient(HANG_S), exit=True, file=item.config.stash[STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_xdist_auto_num_workers() -> int:
    """Run one process more than there are cores, because many tests wait for Spark or for other processes."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deal the tests that wait to all processes, which begin with them: other tests use the cores meanwhile.

    xdist first gives each process an equal number of consecutive tests, and later takes some from the end of what is
    left to another process. The tests of a folder stay together, because they share sessions of Spark or results, and
    those of a shared run on Spark are the first of their folder.
    """
    if not config.getoption("every_case"):
        items[:] = _drawn(items, config.getoption("randomly_seed", None))
    count = getattr(config, "workerinput", {}).get("workercount", 1)
    waiting, others = _waiting_folders(items)
    dealt: list[list[pytest.Item]] = [[] for _ in range(count)]
    for folder in sorted(waiting, key=_seconds, reverse=True):
        min(dealt, key=_seconds).extend(folder)
    items.clear()
    for number, first in enumerate(dealt):
        left = len(others) + sum(map(len, dealt[number:]))
        share = max(left // (count - number) - len(first), 0)
        items += [*first, *others[:share]]
        del others[:share]


def _drawn(items: Sequence[pytest.Item], seed: int | None) -> list[pytest.Item]:
    """Return the tests without the cases that this run does not draw. All processes of a run draw the same cases."""
    cases: dict[str, list[str]] = defaultdict(list)
    most: dict[str, int] = {}
    for item in items:
        if mark := item.get_closest_marker("draws"):
            group = _drawn_together(item, **mark.kwargs)
            cases[group].append(item.nodeid)
            most[group] = mark.args[0]
    left_out: set[str] = set()
    for group, own in cases.items():
        left_out.update(Random(f"{seed} {group}").sample(sorted(own), max(len(own) - most[group], 0)))
    return [item for item in items if item.nodeid not in left_out]


def _drawn_together(item: pytest.Item, of: str = "") -> str:
    """Return the name of the cases of which some are drawn: those of a function, or of a value of its parameter."""
    function = item.nodeid.partition("[")[0]
    return f"{function} {item.callspec.params[of]!r}" if of else function


def _waiting_folders(items: Sequence[pytest.Item]) -> tuple[Iterable[list[pytest.Item]], list[pytest.Item]]:
    """Return the tests that wait, by folder, and the other ones."""
    folders: dict[Path, list[pytest.Item]] = defaultdict(list)
    others: list[pytest.Item] = []
    for item in items:
        (folders[item.path.parent] if item.get_closest_marker("waits") else others).append(item)
    for folder in folders.values():
        folder.sort(key=lambda item: "finished" not in getattr(item, "fixturenames", ()))
        files = list(dict.fromkeys(item.path for item in folder))
        folder.sort(key=lambda item: files.index(item.path))
    return folders.values(), others


def _seconds(items: Sequence[pytest.Item]) -> float:
    """Return about how long tests take that wait."""
    marks = [item.get_closest_marker("waits") for item in items]
    return sum(mark.args[0] for mark in marks if mark)


def pytest_collection_finish() -> None:
    """Exclude the objects of the session from garbage collection, with which each of a thousand measurements begins."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _session_stays_frozen() -> Iterator[None]:
    """Let what measures in child processes freeze objects for good: their release would release those of the session.

    Each child would then go through all of them, and so copy their pages.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _one_front_end() -> Iterator[None]:
    """Plan the texts of all tests of this process in one database."""
    with shared_front_end():
        yield


def _shared(factory: pytest.TempPathFactory) -> Path:
    """Return the directory of all processes of this run."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def checked_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of programs with checked kernels, which one process of the tests compiles for all."""
    environment = {**os.environ, "DELTAMARK_CHECKED": "1"}
    with (_shared(tmp_path_factory) / "checked kernels").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not lock.seek(0, os.SEEK_END):
            script = "from deltamark.harness.console.progress import ensure_compiled; ensure_compiled()"
            subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, check=True)
            lock.write("compiled")
            lock.flush()
    return environment


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with SF 0.01, and SF 0.001 in chunks so small that most relations have several."""
    directory = _shared(tmp_path_factory) / "data"
    with tasks_in_process():
        for sf, chunk_rows in (("0.01", 1 << 20), ("0.001", 128)):
            make_data(Wanted(directory, Decimal(sf), chunk_rows=chunk_rows, workloads=("zipf:1",)), lambda *_: None)
    return directory


@pytest.fixture(scope="session")
def sf001(data: Path) -> Dataset:
    return Dataset.open(Wanted(data, Decimal("0.01")).directory)


@pytest.fixture(scope="session")
def chunked(data: Path) -> Dataset:
    return Dataset.open(Wanted(data, Decimal("0.001")).directory)


@pytest.fixture(scope="module")
def texts_planned_once() -> Iterator[None]:
    """Plan the text of a query once for all cells of a module that read the same relations."""
    sql = query.sql
    planned = cache(lambda text, relations: sql(text, dict(relations)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(query, "sql", lambda text, relations: planned(text, tuple(relations.items())))
        yield
