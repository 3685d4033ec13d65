"""Spark sessions with the packages of this project on the executors, and the running of lists of tasks.

The argument and the result of a task are small values, such as names and paths: rows are exchanged as files. An
expected failure of a task (`DeltamarkError`, `OSError`) is returned as a value and raised by the driver; any other
exception is a defect and keeps its traceback.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from socketserver import BaseServer
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from deltamark.datagen.scratch import empty, make, remove
from deltamark.datagen.spark.java import java_home
from deltamark.errors import DeltamarkError
from deltamark.sources import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")
Made = TypeVar("Made")
Arguments = ParamSpec("Arguments")

ONE_CORE = "-XX:+UseSerialGC"
QUICK = f"{ONE_CORE} -XX:TieredStopAtLevel=1"
"""Options of the JVMs on this machine, whose cores Python needs for its work.

QUICK omits the second compilation of hot code: a JVM starts 2 s sooner, and the first batches of a stream take a third
less time. Spark SQL takes a third more time with it.
"""
DEAD = r"crashed|EOFException|Lost|lost|shut ?down|stopped SparkContext|Connection (reset|refused)"
"""Messages of Spark about a process that has ended."""

MAX_SOCKET_DIRECTORY = 60
"""The longest directory, in bytes, in which Spark can make a Unix domain socket: the path of a socket has at most 103
bytes on all systems, of which its name takes 43."""

SHUTDOWN_TIMEOUT_S = 20
"""The time that a JVM may take to end; not measured."""

ENVIRONMENT = ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_HOME", "SPARK_LOCAL_IP", "TMPDIR")
"""The environment variables that a session changes until it ends."""

_SCRATCH: list[Path] = []


def scratch() -> Path:
    """Make a directory for files of Spark, which is removed when this process ends.

    A JVM may write into the directory as long as it runs, even after its session.
    """
    _SCRATCH.append(make())
    return _SCRATCH[-1]


@atexit.register
def _sweep() -> None:
    if not _SCRATCH:
        return
    from pyspark import SparkContext  # noqa: PLC0415

    gateway = SparkContext._gateway  # noqa: SLF001
    if gateway is not None:
        with suppress(Exception):  # the JVM may be dead
            gateway.shutdown()
        with suppress(OSError, subprocess.TimeoutExpired):
            gateway.proc.stdin.close()
            gateway.proc.wait(SHUTDOWN_TIMEOUT_S)
    for directory in _SCRATCH:
        remove(directory)


_OF_PARENT: list[object] = []
"""The connection of the parent to its JVM. Released objects would send messages through it."""


def _leave_jvm() -> None:
    """Let this forked process start a JVM of its own: the context that it starts in its parent's would outlive it."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext  # noqa: PLC0415

    _OF_PARENT.append(SparkContext._gateway)  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


os.register_at_fork(after_in_child=_leave_jvm)


@contextmanager
def session(master: str, settings: Mapping[str, str] | None = None, jvm: str = QUICK) -> Iterator[SparkSession]:
    """Start a session on `master`; stop it and remove its files at the end of the block.

    jvm: options of the JVMs that run on this machine.
    """
    directory = scratch()
    here = ("driver", "executor") if master.startswith("local") else ("driver",)
    # a killed JVM leaves the files that it has unpacked: they must be in a directory that is swept
    options = f"{jvm} -Djava.io.tmpdir={directory}"
    java = {f"spark.{each}.extraJavaOptions": options for each in here}
    settings = {**java, **socket_settings(directory), **(settings or {})}
    saved = {name: os.environ.get(name) for name in ENVIRONMENT}
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
        for name, value in saved.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
        empty(directory)  # the directory stays: this JVM uses it in the next session too


@contextmanager
def deaths() -> Iterator[None]:
    """Turn the death of Spark, or of one of its processes, into an error of one line. Other errors are not changed."""
    from py4j.protocol import Py4JError, Py4JNetworkError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        cause = error.__context__ or error  # stopping a dead session raises another error
        if isinstance(cause, KeyboardInterrupt | DeltamarkError):
            raise cause from None
        interrupted = "KeyboardInterrupt" in str(cause)
        disconnected = interrupted or isinstance(cause, Py4JNetworkError | ConnectionError | EOFError)
        if not disconnected and ("PythonException" in repr(cause) or not re.search(DEAD, str(cause))):
            raise
        remedy = "find the cause (the kernel kills processes if memory runs out: see dmesg), and run the command again"
        reason = "a task was interrupted" if interrupted else _reason(str(cause) or repr(cause))
        raise DeltamarkError("a process of Spark has died", reason, remedy) from error


def socket_settings(directory: Path) -> dict[str, str]:
    """Let Python processes and JVMs talk over Unix domain sockets if their paths are short enough.

    Over TCP, a process waits up to 40 ms for some answers of the state store, because the sender waits for an
    acknowledgement, which the receiver delays. Measured: micro-batches of 100,000 rows take 15% to 25% less time.
    """
    is_short = len(os.fsencode(directory)) <= MAX_SOCKET_DIRECTORY
    return {"spark.python.unix.domain.socket.enabled": str(is_short).lower()}


def _reason(text: str) -> str:
    """Return the first line of a message of Spark that names an error."""
    lines = text.splitlines()
    return next((line.strip(": ") for line in lines if re.search(r"(Error|Exception):? ", line)), lines[0])


def _home(directory: Path) -> Path:
    """Make a directory of links to Spark's files, because the workers of a cluster on this machine write there."""
    import pyspark  # noqa: PLC0415

    home = directory / "spark"
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
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
        with _stderr_to(log), _temporary_files_in(directory), ended_if_interrupted(), own_interrupt_handler():
            # the JVM keeps the first two
            spark = builder.getOrCreate()
    except Exception as error:
        reason = _reason(f"{error}\n{log.read_text(encoding='utf-8', errors='replace')}")
        remedy = "give MASTER=local[*], local[N] or spark://host:port, and see --debug"
        raise DeltamarkError(f"Spark did not start on {master}", reason, remedy) from error
    ship(spark.sparkContext, directory)
    return spark


@contextmanager
def _temporary_files_in(directory: Path) -> Iterator[None]:
    saved, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = saved


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Send the standard error of this process, and of the JVM that it starts, to a file during the block.

    The output of a JVM is shown only if the JVM does not start.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def hush() -> None:
    """Prevent PySpark's servers from printing a traceback when the JVM dies: `deaths` raises the error."""
    from pyspark import accumulators  # noqa: PLC0415

    for server in vars(accumulators).values():
        if isinstance(server, type) and issubclass(server, BaseServer):
            server.handle_error = lambda *_: None  # type: ignore[method-assign]
    logging.getLogger().addFilter(_is_not_py4j)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Drop Py4J's tracebacks of calls that Ctrl-C has ended."""
    return record.module not in ("java_gateway", "clientserver")


@contextmanager
def own_interrupt_handler() -> Iterator[None]:
    """Keep the present handler of Ctrl-C: PySpark's calls the JVM, which fails while another call is in progress."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def ended_if_interrupted() -> Iterator[None]:
    """End a JVM whose start is interrupted: PySpark does not know it yet, and the JVM would wait forever."""
    from pyspark import SparkContext, java_gateway  # noqa: PLC0415

    started: list[subprocess.Popen[bytes]] = []
    names = vars(java_gateway)
    original, names["Popen"] = names["Popen"], _recorded(subprocess.Popen, started)
    try:
        yield
    except BaseException:
        for process in started if SparkContext._gateway is None else []:  # noqa: SLF001
            process.kill()
            process.wait()
        raise
    finally:
        names["Popen"] = original


def _recorded(make: Callable[Arguments, Made], made: list[Made]) -> Callable[Arguments, Made]:
    """Wrap a constructor so that it appends each of its objects to a list."""

    def make_and_record(*args: Arguments.args, **settings: Arguments.kwargs) -> Made:
        made.append(make(*args, **settings))
        return made[-1]

    return make_and_record


def run_tasks(
    spark: SparkSession,
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    poll: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Run a module-level function on every task, one Spark task each; return the results in order.

    `poll` is called twice a second while they run.
    """
    # an RDD: its first job runs 4 s sooner than one over a frame
    if not tasks:
        return []
    job = spark.sparkContext.parallelize(tasks, len(tasks)).map(partial(run_task, function))
    # the job runs in a thread, so that an interrupt ends the wait here and not a call to the JVM
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(job.collect)
        while not wait([future], timeout=0.5).done:
            poll()
    results: list[Result] = []
    for result in future.result():
        if isinstance(result, DeltamarkError):
            raise result
        results.append(result)
    return results


def run_task(function: Callable[[Task], Result], task: Task) -> Result | DeltamarkError:
    """Run a function on a task; return its result, or the error of an expected failure."""
    try:
        return function(task)
    except DeltamarkError as error:
        return DeltamarkError(error.cause, str(error.actual), error.remedy)
    except OSError as error:
        where = f"{error.strerror or error} ({error.filename})" if error.filename else str(error)
        return DeltamarkError("a task could not read or write", where, "make room or give another DATA=")
