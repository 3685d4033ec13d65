"""Errors: a fault of the environment is one line and exit code 2, a defect of the project keeps its traceback."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest
from support.harness.command_line import error_line

from deltamark.errors import DeltamarkError, naming, refused
from deltamark.harness.cli.main import environment_fault, main
from deltamark.harness.cli.queries import query

DEFECTS = [
    ValueError("x"), TypeError("x"), KeyError("x"), AssertionError("x"), RuntimeError("x"), ImportError("x"),
    ModuleNotFoundError("x", name="deltamark.harness.nothing"), OSError(errno.EBADF, "x"), OSError(errno.EINVAL, "x"),
    OSError("x"), ChildProcessError("TypeError: x"), RecursionError("x"), pa.ArrowInvalid("x"),
]  # fmt: skip


@pytest.mark.parametrize("error", DEFECTS, ids=repr)
def test_a_defect_keeps_its_traceback(monkeypatch, error):
    def fail(_):
        raise error

    assert environment_fault(error) is None
    monkeypatch.setattr(query, "say", fail)
    with pytest.raises(type(error)):
        main(["sql", "q01"])


FAULTS = {
    "out of memory": [
        MemoryError("Unable to allocate 8 TiB"), MemoryError(), pa.ArrowMemoryError("malloc of size 9 failed"),
        OSError(errno.ENOMEM, "x"), OSError("Memory mapping file failed: Cannot allocate memory"),
    ],
    "out of threads": [
        RuntimeError("can't start new thread"),
        pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
    ],
    "a library cannot be loaded": [
        ImportError("\n\nsee\nOriginal error was: libx.so: failed to map segment from shared object\n"),
        OSError("Could not find/load shared object file 'libllvmlite.so'"),
        SystemError("error return without exception set"),
    ],
    "a package is missing: tabulate; run make setup, or pip install 'deltamark[bench]'": [
        ModuleNotFoundError("No module", name="tabulate.x")
    ],
    "cannot read or write": [
        OSError(code, "x") for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENOLCK)
    ],
}  # fmt: skip


@pytest.mark.parametrize(("cause", "error"), [(cause, error) for cause in FAULTS for error in FAULTS[cause]])
def test_a_fault_is_reported_in_one_line_and_can_be_debugged(monkeypatch, capsys, cause, error):
    def fail(_):
        raise error

    monkeypatch.setattr(query, "say", fail)
    assert error_line(capsys, ["sql", "q01"]).startswith(f"error: {cause}")
    assert main(["sql", "q01", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_errors_of_libraries_that_are_not_imported_are_known_by_name():
    for library, name, text, cause in (
        ("_duckdb", "OutOfMemoryException", "x", "DuckDB is out of memory: x"),
        ("_duckdb", "IOException", "Could not write file: No space left on device", "DuckDB cannot read or write"),
        ("py4j.protocol", "Py4JNetworkError", "Answer from Java side is empty", "Spark has failed: Answer from Java"),
    ):
        error = type(name, (Exception,), {"__module__": library})(text)
        assert str(environment_fault(error)).startswith(cause)
        assert environment_fault(type("Other", (Exception,), {"__module__": library})("x")) is None


def test_an_error_names_its_files():
    assert "a -> b: File exists" in str(refused(OSError(errno.EEXIST, "x", "a", None, "b")))
    with pytest.raises(DeltamarkError, match="cannot read or write: x: No space left"), naming("x"):
        raise OSError(errno.ENOSPC, "No space left on device")
