"""Interrupts and deaths of Spark's JVM, which PySpark and Py4J would report by tracebacks of their own."""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import ParamSpec, TypeVar

Made = TypeVar("Made")
Arguments = ParamSpec("Arguments")


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
