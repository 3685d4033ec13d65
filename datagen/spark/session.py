"""Start Spark, quietly and with the packages of this project on its executors, and run lists of tasks on it.

A task is JSON in and JSON out, run by a function of an importable module: nothing but names and paths crosses
between the driver and the executors. A failure that a task foresees (`DeltamarkError`, `OSError`) comes back as
data and is raised here as it was; anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from socketserver import BaseServer
from typing import TYPE_CHECKING, Any

import deltamark
from deltamark.datagen.scratch import empty, make, remove
from deltamark.datagen.spark.java import java_home
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOME = Path(deltamark.__file__).resolve().parent
PACKAGES = ("datagen", "dataflow", "queries", "harness")
ONE_CORE = "-XX:+UseSerialGC"
QUICK = f"{ONE_CORE} -XX:TieredStopAtLevel=1"
"""For JVMs on this machine: Python does the work, and needs their cores. With QUICK nothing hot is compiled once more:
a JVM starts 2 s sooner, and the first batches of a stream take a third less. Where Spark SQL does the work, it takes a
third more.
"""
DEAD = r"crashed|EOFException|Lost|lost|shut ?down|stopped SparkContext|Connection (reset|refused)"
"""What Spark says of a process that is no more."""

LONGEST_END = 20
"""Seconds that a JVM may take to end."""

ENVIRONMENT = ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_HOME", "SPARK_LOCAL_IP", "TMPDIR")
"""The variables that a session changes, until it ends."""

_SCRATCH: list[Path] = []


def scratch() -> Path:
    """Make a directory for files of Spark. It goes at the end of this process: a JVM, as long as it is there, may write
    into it, also when what it writes is of no use any more.
    """
    _SCRATCH.append(make())
    return _SCRATCH[-1]


@atexit.register
def _sweep() -> None:
    if not _SCRATCH:
        return
    from pyspark import SparkContext  # noqa: PLC0415

    gateway: Any = SparkContext._gateway  # noqa: SLF001
    if gateway is not None:
        with suppress(Exception):  # the JVM may be dead
            gateway.shutdown()
        with suppress(OSError, subprocess.TimeoutExpired):
            gateway.proc.stdin.close()
            gateway.proc.wait(LONGEST_END)
    for each in _SCRATCH:
        remove(each)


@contextmanager
def session(master: str, settings: Mapping[str, str] | None = None, jvm: str = QUICK) -> Iterator[SparkSession]:
    """Start a session on `master` and stop it, and remove what it wrote, on the way out.

    jvm: options of the JVMs, where they are on this machine.
    """
    directory = scratch()
    here = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions") if master.startswith("local") else ()
    # a JVM that is killed leaves what it has unpacked, so that must lie where it is found again
    settings = {**dict.fromkeys(here, f"{jvm} -Djava.io.tmpdir={directory}"), **(settings or {})}
    kept = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ["TMPDIR"] = str(directory)
    os.environ["JAVA_HOME"] = str(java_home(os.environ, directory))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if master.startswith("local-cluster"):
        os.environ["SPARK_HOME"] = str(_home(directory))
    try:
        with deaths():
            spark = _start(master, settings, directory)
            try:
                yield spark
            finally:
                spark.stop()
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        empty(directory)  # and no more: this JVM writes there in the next session too


@contextmanager
def deaths() -> Iterator[None]:
    """Say in one line that Spark, or a process of it, has died. Other errors stay as they are."""
    from py4j.protocol import Py4JError, Py4JNetworkError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        found = error.__context__ or error  # to stop what is dead fails once more
        if isinstance(found, KeyboardInterrupt | DeltamarkError):
            raise found from None
        interrupted = "KeyboardInterrupt" in str(found)
        gone = interrupted or isinstance(found, Py4JNetworkError | ConnectionError | EOFError)
        if not gone and ("PythonException" in repr(found) or not re.search(DEAD, str(found))):
            raise
        remedy = (
            "run the same command again, and look for what killed it (the kernel, where memory runs out: see dmesg)"
        )
        said = "a task was interrupted" if interrupted else _reason(str(found) or repr(found))
        raise DeltamarkError("a process of Spark has died", said, remedy) from error


def _reason(text: str) -> str:
    """Return the first line of what Spark says that names an error."""
    lines = text.splitlines()
    return next((line.strip(": ") for line in lines if re.search(r"(Error|Exception):? ", line)), lines[0])


def _home(directory: Path) -> Path:
    """Make a directory that looks like that of Spark: the workers of a cluster on this machine write into it."""
    import pyspark  # noqa: PLC0415

    home = directory / "spark"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    return home


def _start(master: str, settings: Mapping[str, str], directory: Path) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 (half a second, and most commands need no Spark)

    hush()
    builder = (
        SparkSession.builder.master(master)
        .appName("deltamark")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(directory))
        .config("spark.log.level", "ERROR")
        .config(map=dict(settings))
    )
    log = directory / "jvm.log"
    try:
        with _stderr_to(log), _temporary_files_in(directory), ended_if_interrupted():  # the JVM keeps the first two
            spark = builder.getOrCreate()
    except Exception as error:
        reason = _reason(f"{error}\n{log.read_text(encoding='utf-8', errors='replace')}")
        remedy = "give MASTER=local[*], local[N] or spark://host:port, and see --debug"
        raise DeltamarkError(f"Spark did not start on {master}", reason, remedy) from error
    path = list(sys.path)
    spark.sparkContext.addPyFile(str(_package(directory)))
    sys.path[:] = path  # it is the executors that need it
    return spark


def hush() -> None:
    """Keep PySpark's servers from printing a traceback when the JVM dies: `deaths` makes an error of it."""
    from pyspark import accumulators  # noqa: PLC0415

    for each in vars(accumulators).values():
        if isinstance(each, type) and issubclass(each, BaseServer):
            each.handle_error = lambda *_: None  # type: ignore[method-assign]


@contextmanager
def ended_if_interrupted() -> Iterator[None]:
    """End a JVM whose start is interrupted: PySpark does not know it yet, and it would wait for ever."""
    from pyspark import SparkContext, java_gateway  # noqa: PLC0415

    started: list[subprocess.Popen[bytes]] = []

    def start(*words: Any, **settings: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(*words, **settings))
        return started[-1]

    names = vars(java_gateway)
    usual, names["Popen"] = names["Popen"], start
    try:
        yield
    except BaseException:
        for each in started if SparkContext._gateway is None else []:  # noqa: SLF001
            each.kill()
            each.wait()
        raise
    finally:
        names["Popen"] = usual


@contextmanager
def _temporary_files_in(directory: Path) -> Iterator[None]:
    kept, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = kept


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Send the process's standard error, and that of the JVM it starts, to a file for a while.

    What a JVM prints is wanted only when it does not start.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _package(directory: Path) -> Path:
    """Zip the project's own modules, for the executors."""
    target = directory / "deltamark.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for source in [*HOME.glob("*.py"), *(file for name in PACKAGES for file in (HOME / name).rglob("*.py"))]:
            archive.write(source, source.relative_to(HOME.parent))
    return target


def run_tasks(
    spark: SparkSession,
    function: Callable[[Any], Any],
    tasks: Sequence[object],
    poll: Callable[[], None] = lambda: None,
) -> list[Any]:
    """Run a module-level function on every task, one Spark task each; return the results in order.

    `poll` is called twice a second while they run.
    """
    todo = [json.dumps(task) for task in tasks]
    # an RDD: its first job runs 4 s sooner than one over a frame, and nothing but JSON passes through it
    job = spark.sparkContext.parallelize(todo, len(todo)).map(partial(_run_one, function))
    # the job in a thread, the waiting here: so an interrupt ends the wait, not a call to the JVM
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(job.collect)
        while not wait([future], timeout=0.5).done:
            poll()
    results = [json.loads(result) for result in future.result()]
    for result in results:
        if "error" in result:
            raise DeltamarkError(*result["error"])
    return [result["value"] for result in results]


def _run_one(function: Callable[[Any], Any], task: str) -> str:
    try:
        return json.dumps({"value": function(json.loads(task))})
    except DeltamarkError as error:
        return json.dumps({"error": [error.cause, str(error.actual), error.remedy]})
    except OSError as error:
        where = f"{error.strerror or error} ({error.filename})" if error.filename else str(error)
        return json.dumps({"error": ["a task could not read or write", where, "make room or give another DATA="]})
