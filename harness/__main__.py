"""`python -m harness`."""

import sys


def run() -> int:
    try:
        from deltamark.harness.cli.main import main  # noqa: PLC0415 (importing takes a while, and Ctrl-C may come meanwhile)
    except KeyboardInterrupt:
        print("interrupted: nothing was begun", file=sys.stderr)
        return 130
    return main(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(run())
