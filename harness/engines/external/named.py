"""The names of external engines: `exec:PROGRAM`, `ALIAS=exec:PROGRAM`, and the peers of peers/."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deltamark.errors import DeltamarkError
from deltamark.harness.engines.base import DOUBLE_TOLERANCE, PROGRAM, Capabilities, EngineInfo, short_name
from deltamark.harness.engines.external.messages import PROTOCOL, End, HelloReply, Reply
from deltamark.harness.engines.external.program import Program, program_command
from deltamark.harness.engines.peers import PEERS, peer


@dataclass(frozen=True)
class ExternalName:
    """The name of an external engine as users write it, its short name, and the command that starts it."""

    full: str
    short: str
    command: tuple[str, ...]


def is_external(name: str) -> bool:
    """Return whether a name is one of an external engine."""
    return name in PEERS or _program_of(name).startswith(PROGRAM)


def is_program(name: str) -> bool:
    """Return whether a name is one of a program that a user provides."""
    return is_external(name) and name not in PEERS


@cache
def resolved(name: str) -> ExternalName:
    """Find the program of an external engine; raise a DeltamarkError if there is none."""
    if name in PEERS:
        return ExternalName(name, name, tuple(peer(name).ready_command()))
    command = program_command(name, _program_of(name).removeprefix(PROGRAM))
    return ExternalName(name, short_name(name), tuple(command))


def _program_of(name: str) -> str:
    _, equals, program = name.partition("=")
    return program if equals and program.startswith(PROGRAM) else name


@cache
def greeting(name: str) -> HelloReply:
    """Return what an engine says of itself: a peer in its manifest, and another program in its reply to `hello`."""
    if name in PEERS:
        return peer(name).greeting
    try:
        with closing(_started(name)) as program:
            return program.greeting
    except DeltamarkError:  # the cells of the engine fail for the same reason
        return HelloReply(protocol=PROTOCOL, name=f"{short_name(name)}, which did not reply", output="answers")


@cache
def info(name: str) -> EngineInfo:
    """Return what records keep of an engine."""
    said, digest = greeting(name), hashlib.blake2b(digest_size=8)
    for word in resolved(name).command:
        path = shutil.which(word) or word
        if Path(path).is_file():
            digest.update(Path(path).read_bytes())
    return EngineInfo(said.name, digest.hexdigest(), said.output, said.maintains, said.session)


def translated(name: str, sql: str) -> str:
    """Return SQL in the dialect of an engine, if that is a peer."""
    return peer(name).translated(sql) if name in PEERS else sql


def capabilities(name: str) -> Capabilities:
    said = greeting(name)
    return Capabilities(
        output=said.output,
        max_workers=said.max_workers,
        recomputes=not said.maintains,
        has_session=said.session,
        snapshots=said.snapshots,
        attaches=said.attaches,
        tolerance=DOUBLE_TOLERANCE,
    )


_open_sessions: dict[str, Program] = {}
"""The programs of this process that stay open for the next query."""


def acquire(name: str) -> Program:
    """Return the program of an engine, ready for `open`: that of its session, or a new one."""
    if name in _open_sessions:
        return _open_sessions[name]
    program, expected = _started(name), greeting(name)
    if program.greeting != expected:
        program.close()
        remedy = "correct the manifest, or start again"
        raise DeltamarkError(f"{short_name(name)} replies to hello with", program.greeting, f"not {expected}; {remedy}")
    if expected.session:
        _open_sessions[name] = program
    return program


def release(name: str, program: Program) -> None:
    """Release the query of a program; end the program unless its session stays open."""
    if name in _open_sessions:
        try:
            program.request(End(), Reply)
        except BaseException:
            discard(name, program)
            raise
    leave(name, program)


def leave(name: str, program: Program) -> None:
    """End a program without a query unless its session stays open; raise an error if it does not end as it should."""
    if name not in _open_sessions:
        program.close()
        program.check_end()


def discard(name: str, program: Program) -> None:
    """End a program after a failure."""
    _open_sessions.pop(name, None)
    program.close()


def _started(name: str) -> Program:
    each = resolved(name)
    return Program(each.short, list(each.command))
