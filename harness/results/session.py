"""Headers of measurement sessions: time, machine, versions and command. A session writes one before and one after."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from deltamark.harness.results.record import Amount, Count


class Facts(TypedDict):
    """The description of a machine: see harness/results/machine.py."""

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
