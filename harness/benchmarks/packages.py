"""The packages of a benchmark: a generator of rows, or texts of queries.

A file of requirements names them with their versions and hashes. They are installed on demand in a folder of their own,
`.benchmarks/NAME`, never in the environment of this project, which imports none of them: their programs and files are
used.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from deltamark.errors import DeltamarkError
from deltamark.harness.system.machine import ROOT

INSTALLED = ROOT / ".benchmarks"

READY = "ready"
"""The file that a complete installation leaves: the digest of the requirements."""

PIP = (
    "--disable-pip-version-check", "install", "--quiet", "--no-compile", "--no-deps", "--only-binary", ":all:",
    "--require-hashes",
)  # fmt: skip


@dataclass(frozen=True)
class Packages:
    """requirements: the file that lists them, whose folder is that of the benchmark."""

    requirements: Path

    @property
    def name(self) -> str:
        return self.requirements.resolve().parent.name

    @property
    def folder(self) -> Path:
        """The folder of the files of the packages."""
        return INSTALLED / self.name / "packages"

    @property
    def command(self) -> str:
        """The command that installs them."""
        home = self.requirements.resolve().parent
        return f"make packages BENCHMARK={home.name if home.parent == ROOT / 'queries' else home}"

    @property
    def listed(self) -> str:
        """The names of the packages with their versions."""
        return ", ".join(re.findall(r"^[\w.-]+==[\w.]+", self._text, re.MULTILINE))

    @property
    def are_ready(self) -> bool:
        """Whether the packages are those that the file lists."""
        ready = self.folder.parent / READY
        return ready.exists() and ready.read_text(encoding="ascii") == self._digest

    def files(self, pattern: str) -> list[Path]:
        """Return the files of the packages whose paths have a pattern; raise a DeltamarkError if there are none."""
        found = sorted(self.folder.glob(pattern)) if self.are_ready else []
        if not found:
            cause = f"{self.name} needs packages that are not installed"
            raise DeltamarkError(cause, self.listed, f"run {self.command}")
        return found

    def file(self, path: str) -> Path:
        """Return the path of a file of the packages."""
        return self.files(path)[0]

    def install(self) -> None:
        """Install the packages, unless they are there."""
        if self.are_ready:
            return
        (self.folder.parent / READY).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        command = [sys.executable, "-m", "pip", *PIP, "--target", str(self.folder), "-r", str(self.requirements)]
        if ended := subprocess.run(command, check=False).returncode:
            remedy = f"read the messages above, then run {self.command} again"
            raise DeltamarkError(f"the installation of {self.listed} stopped", f"pip ended with {ended}", remedy)
        (self.folder.parent / READY).write_text(self._digest, encoding="ascii")

    @property
    def _text(self) -> str:
        return self.requirements.read_text(encoding="utf-8")

    @property
    def _digest(self) -> str:
        return hashlib.blake2b(self._text.encode(), digest_size=16).hexdigest()
