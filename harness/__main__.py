"""`python -m harness`."""

import sys

from harness.cli import main


def run() -> int:
    return main(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(run())
