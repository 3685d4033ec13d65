"""`python -m harness`."""

import sys


def run() -> int:
    try:
        from deltamark.harness.cli.main import main  # noqa: PLC0415 (the import takes a while: Ctrl-C may interrupt it)
    except KeyboardInterrupt:
        print("interrupted: nothing was begun", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "deltamark":
            raise
        remedy = "run make setup, and use .venv/bin/python; or pip install 'deltamark[bench]'"
        print(f"error: a package is missing: {error.name}; {remedy}", file=sys.stderr)
        return 2
    return main(sys.argv[1:], ends_process=True)


if __name__ == "__main__":
    raise SystemExit(run())
