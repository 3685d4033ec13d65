"""Write the locks: versions and hashes for Python 3.11 to 3.13 on every platform, without addresses of packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
UV = [
    str(Path(sys.executable).with_name("uv")), "pip", "compile", "--quiet", "--universal",
    "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate", "--upgrade",
]  # fmt: skip


def main() -> None:
    subprocess.run([*UV, "pyproject.toml", "--extra", "dev", "-o", "requirements.lock"], cwd=ROOT, check=True)
    build = b"setuptools\nwheel\n"  # builds the sdists of the lock, and the project
    subprocess.run([*UV, "-", "-o", "requirements-build.lock"], cwd=ROOT, check=True, input=build)


if __name__ == "__main__":
    main()
