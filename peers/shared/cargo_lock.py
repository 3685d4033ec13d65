"""Make Cargo.lock from lock.txt, whose lines have the name, the version and the checksum of a crate.

    python3 cargo_lock.py            set the versions of lock.txt, and compare the checksums
    python3 cargo_lock.py --write    write lock.txt anew from the newest versions that Cargo.toml allows

Cargo.lock also names the registry, which a machine may replace by another: therefore only lock.txt is part of the
project.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

LOCK, OURS = Path("Cargo.lock"), Path("lock.txt")

Crate = tuple[str, str, str]


def main() -> int:
    LOCK.unlink(missing_ok=True)
    cargo("generate-lockfile")
    if "--write" in sys.argv:
        OURS.write_text("".join(f"{' '.join(crate)}\n" for crate in sorted(locked())), encoding="ascii")
        return 0
    wanted = {tuple(line.split()) for line in OURS.read_text(encoding="ascii").splitlines()}
    # a crate may need another version before it accepts the wanted one, so that there are several passes
    for _ in range(10):
        others = locked() - wanted
        if not others:
            print(f"{len(wanted)} crates, with the checksums of {OURS}")
            return 0
        for name, version, _checksum in sorted(others):
            for other in sorted(each[1] for each in wanted - locked() if each[0] == name):
                cargo("update", "--package", f"{name}@{version}", "--precise", other, may_fail=True)
    for crate in sorted(others):
        print(f"not a crate of {OURS}: {' '.join(crate)}", file=sys.stderr)
    return 1


def cargo(*words: str, may_fail: bool = False) -> None:
    ran = subprocess.run(["cargo", "--quiet", *words], check=False, capture_output=may_fail)
    if ran.returncode and not may_fail:
        raise SystemExit(ran.returncode)


def locked() -> set[Crate]:
    """Return the crates of Cargo.lock that come from a registry."""
    packages = tomllib.loads(LOCK.read_text(encoding="utf-8"))["package"]
    return {(each["name"], each["version"], each["checksum"]) for each in packages if "source" in each}


if __name__ == "__main__":
    raise SystemExit(main())
