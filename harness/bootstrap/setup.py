"""Make `.venv` from the locks, and install the project into it. Needs nothing but the standard library."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
OLDEST, TESTED = (3, 11), (3, 13)

UNCOMPRESSED = "[bdist_wheel]\ncompression = stored\n"
"""The settings of setuptools: a package that is built from its sources is installed at once, so it need not be small.

Measured: Spark and five small packages take 19 CPU seconds, and 32 if setuptools compresses Spark.
"""


def pip(*arguments: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".cfg", encoding="utf-8") as settings:
        settings.write(UNCOMPRESSED)
        settings.flush()
        subprocess.run(
            [VENV / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments],
            check=True, env={**os.environ, "DIST_EXTRA_CONFIG": settings.name},
        )  # fmt: skip


def install(lock: Path) -> None:
    """Install the packages of a lock: Spark, which is nearly half of all, while the others are installed."""
    packages = re.split(r"\n(?=\w)", lock.read_text(encoding="utf-8"))
    parts = [[each for each in packages if each.startswith("pyspark==") == is_spark] for is_spark in (True, False)]
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor() as pool:
        files = [Path(directory, name) for name in ("spark.lock", "others.lock")]
        for file, part in zip(files, parts, strict=True):
            file.write_text("\n".join(part), encoding="utf-8")
        options = ("--require-hashes", "--no-deps", "--no-build-isolation", "-r")
        list(pool.map(lambda file: pip(*options, str(file)), files))


def main() -> int:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST:
        print(f"error: Python is too old: {version}; use 3.11 to 3.13: make setup PYTHON=python3.13")
        return 2
    if sys.version_info[:2] > TESTED:
        print(f"note: Python {version} is newer than the newest tested, 3.13")
    if VENV.is_symlink():  # clearing it would remove the environment of another work tree
        print(f"error: .venv is a link: {VENV.resolve()}; run make setup where it points, or remove the link")
        return 2
    ready = VENV / "ready"
    ready.unlink(missing_ok=True)
    print(f"setting up .venv for Python {version}: about 1.4 GB, a few minutes", flush=True)
    try:
        venv.EnvBuilder(with_pip=True, clear=True).create(VENV)
        # The locks are complete. Without --no-deps, pip looks at the newest version of a requirement with an extra,
        # which has no hash in the lock once it is newer than the pinned one.
        pip("--require-hashes", "--no-deps", "-r", str(ROOT / "requirements-build.lock"))
        install(ROOT / "requirements.lock")
        pip("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    except subprocess.CalledProcessError as error:
        print(
            f"error: setting up stopped: {error.cmd[-1]} ended with {error.returncode}; read the messages above "
            "(on Debian and Ubuntu: is python3-venv installed?), then run make setup again"
        )
        return 2
    ready.touch()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
