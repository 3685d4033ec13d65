"""The machine and the code of a measurement: headers of sessions, digests, and warnings with remedies.

A session writes a header before and after it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from deltamark import __version__
from deltamark.datagen.manifest import FILE as MANIFEST
from deltamark.datagen.scratch import scratch
from deltamark.datagen.spark.java import java_home
from deltamark.errors import DeltamarkError
from deltamark.sources import digest

MAX_NUMBER = (1 << 63) - 1

Count = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Amount = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]
"""Seconds, or another number from 0 up. The limits are checked when a record is read."""


class Facts(TypedDict):
    """The description of a machine."""

    cpu: str
    cores: Count
    usable: Count
    caches: str
    governor: str
    memory_gb: Count
    kernel: NotRequired[str]
    system: str
    limits: str
    load: Amount


class Header(TypedDict):
    session: str
    started: str
    machine: Facts
    versions: str
    java: str
    commit: str
    repository: NotRequired[str]
    """The name and the commit of the repository of a measured program, if it has one of its own."""
    argv: str
    load_after: NotRequired[Amount]


ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("duckdb", "llvmlite", "numba", "numpy", "pyarrow", "pyspark", "tpchgen-cli")
MEASURED = (
    "deltamark.dataflow", "deltamark.datagen", "deltamark.queries", "deltamark.harness.engines",
    "deltamark.harness.measure", "deltamark.harness.check", "deltamark.harness.benchmarks", "deltamark.harness.system",
)  # fmt: skip
"""Packages whose code takes part in every number."""

MAX_LOAD = 0.5
"""The load average up to which timings are trusted; not measured."""


def facts() -> Facts:
    """Describe this machine."""
    return {
        "cpu": _cpu(), "cores": os.cpu_count() or 1, "usable": len(os.sched_getaffinity(0)), "caches": _caches(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown",
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "kernel": platform.release(), "system": platform.platform(terse=True), "limits": _limits(), "load": load(),
    }  # fmt: skip


def name(machine_facts: Facts) -> str:
    """Return the name of a machine's directory."""
    words = re.sub(r"\(\w+\)|CPU|Processor|@.*", "", machine_facts["cpu"])
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") or "unknown"
    return f"{slug}-{machine_facts['cores']}x-{machine_facts['memory_gb']}gb"


def load() -> float:
    return os.getloadavg()[0]


def warnings(machine_facts: Facts) -> Iterator[str]:
    """Name conditions that distort timings, with remedies."""
    load_average = machine_facts["load"]
    if load_average > MAX_LOAD:
        yield f"the load is {load_average:.1f}: other programs share the cores; stop them, or read ratios alone"
    if machine_facts["governor"] in ("powersave", "conservative"):
        yield f"the governor is {machine_facts['governor']}: cpupower frequency-set --governor performance"


def versions() -> str:
    """List the versions of Python and of all packages that take part."""
    names = [f"deltamark {__version__}", f"python {platform.python_version()}"]
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            names.append(f"{package} {importlib.metadata.version(package)}")
    return ", ".join(names)


def java() -> str:
    """Return the version of Java that Spark would use."""
    return _java(*((name, os.environ[name]) for name in ("JAVA_HOME", "PATH") if name in os.environ))


@cache
def _java(*variables: tuple[str, str]) -> str:
    with scratch() as directory:
        try:
            program = java_home(dict(variables), directory) / "bin" / "java"
        except DeltamarkError as error:
            return f"none: {error}"
        ran = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    return ran.stderr.partition("\n")[0]


def code(*packages: str) -> str:
    """Return a digest of the sources behind a number: those of MEASURED, and of more packages of the harness."""
    return digest(*MEASURED, *(f"deltamark.harness.{name}" for name in packages))


def data(directory: Path) -> str:
    """Return a digest of the manifest without file times; empty if the data does not exist yet."""
    text = re.sub(r'"(mtime_ns|digest)": ("\w+"|\d+)', "", _read(str(directory / MANIFEST)))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest() if text else ""


def commit(repository: Path = ROOT) -> str:
    """Return the commit of a repository, with a plus if its work tree differs from it."""
    try:
        sha = _git(repository, "rev-parse", "--short=12", "HEAD")
        return sha + ("+" if _git(repository, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(repository: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=True).stdout.strip()


def _cpu() -> str:
    model = re.search(r"^model name\s*:\s*(.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return model[1] if model else platform.processor() or platform.machine()


def _caches() -> str:
    caches = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(str(index / part)) for part in ("level", "type", "size"))
        caches.append(f"L{level}{kind[:1].lower() if level == '1' else ''} {size}")
    return ", ".join(caches)


def _limits() -> str:
    """Return the CPU and memory limits of the container."""
    cpu, memory = _read("/sys/fs/cgroup/cpu.max"), _read("/sys/fs/cgroup/memory.max")
    limits = [f"cpu {cpu}"] if cpu and not cpu.startswith("max") else []
    limits += [f"memory {memory}"] if memory and memory != "max" else []
    return ", ".join(limits) or "none"


def _read(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8").strip()
    return ""
