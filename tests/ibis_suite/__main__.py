"""Run ibis' tests against our backend. Arguments are those of pytest."""

from __future__ import annotations

import sys
from pathlib import Path

import ibis.backends.tests
import pytest

WORDS = (
    "-p", "ibis_suite.plugin", "-p", "no:randomly", "-p", "no:cacheprovider", "-c", "/dev/null", "-W", "ignore",
    "-q", "-rs",
)  # fmt: skip


def main() -> int:
    folder = Path(ibis.backends.tests.__file__).parent
    return pytest.main([*WORDS, "--rootdir", str(folder.parents[2]), *(sys.argv[1:] or [str(folder)])])


if __name__ == "__main__":
    raise SystemExit(main())
