"""Headers of measurement sessions: time, machine, versions and command. A session writes one before and one after."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, cast

from deltamark.harness.results.json_types import check


class Facts(TypedDict):
    """The description of a machine: see harness/results/machine.py."""

    cpu: str
    cores: int
    usable: int
    caches: str
    governor: str
    memory_gb: int
    kernel: NotRequired[str]
    system: str
    limits: str
    load: float


class Header(TypedDict):
    session: str
    started: str
    machine: Facts
    versions: str
    java: str
    commit: str
    argv: str
    load_after: NotRequired[float]


def header_from_json(raw: Any) -> Header:
    """Read a header; raise a ValueError unless it is valid."""
    check(raw, Header, "the header")
    return cast("Header", raw)
