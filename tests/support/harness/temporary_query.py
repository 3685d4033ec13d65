"""A query in a file that exists only for a while."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.paths import ROOT

from deltamark.harness.benchmarks import benchmark


@contextmanager
def temporary_query(directory: Path) -> Iterator[str]:
    """Yield the path of a file with Q06, which is removed afterwards."""
    path = directory / "temporary.py"
    shutil.copy(ROOT / "queries" / "tpch" / "q06.py", path)
    yield str(path)
    path.unlink()
    benchmark._query_of.cache_clear()
