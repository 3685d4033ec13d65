"""Run ibis' tests against our backend: all of them, or those that arguments of pytest select."""

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
    names = any(Path(each.partition("::")[0]).exists() for each in sys.argv[1:])
    return pytest.main([*WORDS, "--rootdir", str(folder.parents[2]), *sys.argv[1:], *([] if names else [str(folder)])])


if __name__ == "__main__":
    raise SystemExit(main())
