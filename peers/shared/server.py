"""A private PostgreSQL server: a new cluster in a directory, reached by a socket in it, without a network."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg

PROGRAMS = Path("/usr/lib/postgresql/15/bin")
"""The programs of Debian's package postgresql-15."""

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "dynamic_shared_memory_type": "mmap",
    "shared_buffers": "256MB",
    "work_mem": "64MB",
    "autovacuum_naptime": "1s",
}
"""No network, no durability, and all files in the directory of the cluster. A query may sort and hash in memory."""

USERS = ("postgres", "nobody")
"""The users that run the server in place of root, as whom PostgreSQL does not start."""

START_TIMEOUT_S = 60.0
"""The time that the server may take to start. Not measured."""


class Server:
    """A server, which is a child of this process until `close`."""

    def __init__(self, directory: Path) -> None:
        cluster = directory / "cluster"
        cluster.mkdir(mode=0o700)
        user: dict[str, Any] = {}
        if os.geteuid() == 0:
            found = _user()
            user = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
            directory.chmod(0o711)  # the files in it keep their rights
            os.chown(cluster, found.pw_uid, found.pw_gid)
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [PROGRAMS / "initdb", *options, f"--pgdata={cluster}"],
            cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **user,
        )  # fmt: skip
        if made.returncode:
            raise OSError(f"initdb ended with {made.returncode}: {made.stderr}")
        settings = {**SETTINGS, "unix_socket_directories": cluster}
        words = [f"--{name}={value}" for name, value in settings.items()]
        self._process = subprocess.Popen(
            [PROGRAMS / "postgres", "-D", cluster, *words],
            cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **user,
        )  # fmt: skip
        self.dsn = f"host={cluster} user=postgres dbname=postgres"

    def connect(self) -> psycopg.Connection[Any]:
        """Connect to the server as soon as it has started."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return psycopg.connect(self.dsn)
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def close(self) -> None:
        """End the server without a checkpoint: nothing reads its files again, and the harness removes them."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()


def _user() -> pwd.struct_passwd:
    for name in USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise OSError(f"none of the users {', '.join(USERS)} exists, and PostgreSQL does not run as root")
