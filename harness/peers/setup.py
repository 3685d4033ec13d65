"""The set-up of a peer: a copy of its folder in .peers/NAME, in which the commands of its manifest run."""

from __future__ import annotations

import shlex
import shutil
import subprocess

from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.console.console import say
from deltamark.harness.peers.manifest import PEERS, READY, Peer


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
