"""The set-up of a peer: a copy of its folder in .peers/NAME, in which the commands of its manifest run.

Peers: engines of others, each with a folder in peers/ that has its manifest, its adapter and its set-up.

The manifest `peers/NAME/peer.toml` states what the engine is, what it needs, how it is set up and started, and what it
supports. A peer is set up in `.peers/NAME`, never in the environment of this project.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.console.console import say
from deltamark.harness.engines.base import Output
from deltamark.harness.engines.external.messages import HelloReply, plain
from deltamark.harness.system.machine import ROOT

FOLDER = ROOT / "peers"
INSTALLED = ROOT / ".peers"
SHARED = FOLDER / "shared"
MANIFEST = "peer.toml"
IGNORED = {"README.md", "__pycache__", "target", "node_modules", "Cargo.lock"}
"""The names of the page, and of files and folders that tools make: a set-up does not depend on them."""
READY = "ready"
"""The file that a complete set-up leaves: the digest of the folder that was set up."""

Text = Annotated[str, Meta(min_length=1)]


def _refuse_control_characters(*texts: str) -> None:
    """Raise an error, which names the manifest, for a text that would not reach a table or a terminal as it is."""
    for text in texts:
        if plain(text) != text:
            raise ValueError(f"not a short line of printable characters: {plain(text)}")


class Tool(Struct, frozen=True, forbid_unknown_fields=True):
    """A program that must be on the machine before a peer can be set up. hint: what installs it."""

    program: Text
    hint: Text

    def __post_init__(self) -> None:
        _refuse_control_characters(self.program, self.hint)


SQL_TYPES = {"int64": "BIGINT", "decimal": "DECIMAL(15, {})", "date32": "DATE", "string": "VARCHAR"}
"""The types of the protocol in the SQL of most engines."""


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """The SQL of the engine alone that repeats a fault, which `make fuzz` prints.

    In texts braces stand for details: in `types` the digits behind the point of a decimal, in `filled` the {name}, the
    {names} of its columns, their {casts} to their types and the {rows}, in `view` the {query}, and in `read` the
    {query} and its {order}.
    """

    run: str = "any SQL database"
    """The program that runs it."""
    types: dict[str, str] = field(default_factory=SQL_TYPES.copy)
    key: str = "arrival BIGINT PRIMARY KEY"
    """The column with the number of a row, by which it is deleted."""
    filled: str = ""
    """The statement that creates a table with rows; without it, there are two."""
    view: str = ""
    """The statement that creates the view; without one, the query runs over the rows that are live at its end."""
    read: str = "{query}"
    """The statement that returns the answer."""


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """The content of a manifest."""

    name: Text
    """The name and version of the engine."""
    licence: Text
    language: Text
    source: Text
    """Where the engine comes from, such as `crates.io`."""
    tools: list[Tool] = []
    shared: list[str] = []
    """Files of `peers/shared/` that the adapter needs beside it."""
    setup: list[list[str]]
    """The commands that set the peer up, each run in `{source}`, a copy of the folder of the peer."""
    run: list[str]
    """The command that starts the adapter."""
    protocol: int = 1
    """The version of the protocol that the adapter speaks."""
    output: Output
    maintains: bool = True
    max_workers: int | None = None
    session: bool = False
    several: bool = False
    nulls: bool = False
    deletions: bool = True
    snapshots: bool = False
    attaches: bool = False
    dialect: list[tuple[str, str]] = []
    """Regular expressions, and the texts that replace their matches in the SQL of all queries."""
    refuses: dict[str, str] = field(default_factory=dict)
    """The queries that the engine is expected to refuse, each with the reason. It is asked all the same."""
    wrong: dict[str, str] = field(default_factory=dict)
    """The cases of `conformance` that the engine is known to fail, each with the reason. It is asked all the same."""
    differs: dict[str, str] = field(default_factory=dict)
    """The constructs of random queries that have another meaning in the engine's SQL, each with the difference."""
    script: Script = Script()

    def __post_init__(self) -> None:
        reasons = *self.refuses.values(), *self.wrong.values(), *self.differs.values()
        _refuse_control_characters(self.name, self.licence, self.language, self.source, *reasons)


@dataclass(frozen=True)
class Peer:
    name: str
    manifest: Manifest

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def installed(self) -> Path:
        return INSTALLED / self.name

    @property
    def source(self) -> Path:
        return self.installed / "source"

    @property
    def greeting(self) -> HelloReply:
        """Return the reply to `hello` that the manifest promises."""
        own = self.manifest
        return HelloReply(
            protocol=own.protocol, name=own.name, output=own.output, maintains=own.maintains,
            max_workers=own.max_workers, session=own.session, several=own.several, nulls=own.nulls,
            deletions=own.deletions, snapshots=own.snapshots, attaches=own.attaches,
        )  # fmt: skip

    @property
    def missing(self) -> list[Tool]:
        """Return the tools that this machine does not have."""
        return [tool for tool in self.manifest.tools if not shutil.which(tool.program)]

    @property
    def is_ready(self) -> bool:
        return (self.installed / READY).exists()

    @property
    def is_current(self) -> bool:
        """Return whether the peer was set up from the present files."""
        return self.is_ready and (self.installed / READY).read_text(encoding="ascii") == self.digest

    @property
    def digest(self) -> str:
        """The digest of the files in the folder of the peer."""
        whole = hashlib.blake2b(digest_size=16)
        for name, path in self.files.items():
            whole.update(f"{name}\0".encode() + path.read_bytes())
        return whole.hexdigest()

    @property
    def files(self) -> dict[str, Path]:
        """The files of the peer, by their names in the copy."""
        own = (path for path in self.folder.rglob("*") if path.is_file() and not IGNORED.intersection(path.parts))
        files = {str(path.relative_to(self.folder)): path for path in own}
        return dict(sorted({**files, **{name: SHARED / name for name in self.manifest.shared}}.items()))

    def translated(self, sql: str) -> str:
        """Return SQL in the dialect of the engine."""
        for pattern, replacement in self.manifest.dialect:
            sql = re.sub(pattern, replacement, sql)
        return sql

    def ready_command(self) -> list[str]:
        """Return the command that starts the adapter; raise a DeltamarkError if the peer is not set up."""
        if not self.is_ready:
            raise DeltamarkError("a peer that is not set up", self.name, f"run make peer PEER={self.name}")
        if not self.is_current:
            raise DeltamarkError(
                "a peer that was set up from other files", self.name, f"run make peer PEER={self.name}"
            )
        return self.filled(self.manifest.run)

    def filled(self, words: list[str]) -> list[str]:
        """Fill in the directory of the installation, the copy of the folder in it, and the running Python."""
        return [word.format(installed=self.installed, source=self.source, python=sys.executable) for word in words]


def _names() -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{MANIFEST}"))


PEERS = _names()


@cache
def peer(name: str) -> Peer:
    """Read the manifest of a peer."""
    path = FOLDER / name / MANIFEST
    try:
        return Peer(name, msgspec.toml.decode(path.read_bytes(), type=Manifest))
    except msgspec.DecodeError as error:
        raise DeltamarkError("a wrong manifest", f"{path}: {error}", "correct it") from error


def known_peer(name: str) -> str:
    """Return the name of a peer, or raise a DeltamarkError."""
    if name not in PEERS:
        raise unknown("peer", name, PEERS)
    return name


def set_up(peer: Peer) -> None:
    """Set a peer up. What earlier set-ups have fetched and built is used again."""
    if peer.missing:
        tool = peer.missing[0]
        raise DeltamarkError(f"{peer.name} needs a program", tool.program, tool.hint)
    (peer.installed / READY).unlink(missing_ok=True)
    digest = peer.digest
    shutil.rmtree(peer.source, ignore_errors=True)
    for name, path in peer.files.items():
        target = peer.source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        shutil.copymode(path, target)
    for command in peer.manifest.setup:
        words = peer.filled(command)
        say(f"{peer.name}: {shlex.join(words)}")
        try:
            ended = subprocess.run(words, cwd=peer.source, check=False).returncode
        except OSError as error:
            raise DeltamarkError("the set-up did not start", f"{words[0]}: {error.strerror}", "install it") from error
        if ended != 0:
            remedy = "read the messages above, then run make peer again"
            raise DeltamarkError(f"the set-up of {peer.name} stopped", f"{words[0]} ended with {ended}", remedy)
    (peer.installed / READY).write_text(digest, encoding="ascii")
