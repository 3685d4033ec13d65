"""The adapter for PostgreSQL's protocol takes a server that a user names, with the statements of the user's view."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from deltamark.harness.cli.main import main
from deltamark.harness.engines.peers import peer

SERVER = """
import sys
from pathlib import Path
from server import Server
server = Server(Path(sys.argv[1]))
with server.connect():
    print(server.dsn, flush=True)
sys.stdin.read()
server.close()
"""


@pytest.fixture
def adapter():
    """Return the words that start the adapter."""
    if not peer("pgwire").is_current:
        pytest.skip("make peer PEER=pgwire")
    return peer("pgwire").ready_command()


@pytest.fixture
def dsn(adapter, tmp_path):
    """Start a server; return how it is reached."""
    words = [adapter[0], "-c", SERVER, tmp_path]
    with subprocess.Popen(
        words, cwd=peer("pgwire").source, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()


@pytest.mark.parametrize(
    "statements",
    [
        {},
        {"create": "CREATE VIEW {view} AS {query}", "refresh": ""},
        {"create": "CREATE VIEW {view} AS {body}", "refresh": "", "read": "SELECT * FROM {view} {end}"},
    ],
    ids=["a materialized view", "a view", "a view without an order and a limit"],
)
def test_a_server_of_the_user_passes_all_cases(adapter, dsn, capsys, statements):
    options = [f"--{name}={value}" for name, value in {"dsn": dsn, "name": "mine", **statements}.items()]
    assert main(["conformance", f"ENGINE=exec:{shlex.join([*adapter, *options])}"]) == 0
    assert "mine may claim: answers, with NULL in its inputs" in capsys.readouterr().out
