"""Serve a page that follows four views of the shop, while orders arrive day by day.

    python examples/make_shop.py
    python examples/dashboard.py                      # and open the address that it prints
    python examples/dashboard.py --pause 0.2          # seconds between two days

A browser reads `/events`, a stream of server-sent events: first the answers of the views, and then the changes that
each commit makes to them. The page sums them up. No query runs again, and the server keeps nothing for a browser but
the changes that wait for it. Needs nothing beside deltamark and the standard library.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread

from follow_shop import DAYS, SHOP, TABLES, arrive

import deltamark

VIEWS = ("revenue_by_category", "orders_by_status", "weekly_revenue", "best_customers")
PAGE = Path(__file__).with_suffix(".html")
QUIET_S = 0.5
"""The seconds after which a stream without news looks whether its browser is still there."""


def opened(folder: Path) -> deltamark.Connection:
    """Open a database in memory with the tables of the shop and the four views."""
    con = deltamark.connect()
    con.execute(f"BEGIN; {TABLES}; COMMIT")
    for view in VIEWS:
        con.execute(f"CREATE VIEW {view} AS {(folder / view).with_suffix('.sql').read_text()}")
    return con


def plain(value: object) -> object:
    """Return a value that JSON does not have as one that it has."""
    return float(value) if isinstance(value, Decimal) else str(value)


def event(name: str, content: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content, default=plain)}\n\n".encode()


def changes_of(con: deltamark.Connection, ended: Event) -> Iterator[bytes]:
    """Yield the events of a browser: the answers of the views, and then their changes."""
    waiting: SimpleQueue[tuple[str, deltamark.Changes]] = SimpleQueue()
    with ExitStack() as followed:
        for view in VIEWS:
            put = lambda changes, view=view: waiting.put((view, changes))  # noqa: E731
            followed.enter_context(con.subscribe(view, put, snapshot=True))
        while not ended.is_set():
            try:
                view, changes = waiting.get(timeout=QUIET_S)
            except Empty:
                yield b": nothing has changed\n\n"
                continue
            _, _, *columns = changes.columns
            rows = [[diff, row] for _, diff, *row in changes]
            yield event(view, {"commit": changes.time, "columns": columns, "changes": rows})


class Handler(BaseHTTPRequestHandler):
    """Answers a browser: the page, and the events."""

    def do_GET(self) -> None:
        if self.path == "/":
            self.head("text/html; charset=utf-8")
            self.wfile.write(PAGE.read_bytes())
        elif self.path == "/events":
            self.head("text/event-stream")
            with suppress(ConnectionError):  # the browser has gone
                for each in changes_of(self.server.con, self.server.ended):
                    self.wfile.write(each)
        else:
            self.send_error(404)

    def head(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing for each request."""


class Server(ThreadingHTTPServer):
    """The server of a connection. Each stream of events has a thread."""

    daemon_threads = True

    def __init__(self, con: deltamark.Connection, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.con, self.ended = con, Event()


@contextmanager
def serving(con: deltamark.Connection, port: int = 0) -> Iterator[str]:
    """Serve a connection, in threads of its own, until the end of the context; 0 is any free port."""
    with Server(con, port) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.ended.set()
            server.shutdown()


def run(port: int, pause: float, folder: Path = SHOP) -> None:
    """Let the days arrive, and serve the page until Ctrl-C."""
    with opened(folder) as con, serving(con, port) as address:
        print(f"open {address}; Ctrl-C ends it", flush=True)
        ended = Event()
        try:
            for (day,) in con.execute(DAYS, [str(folder / "orders.parquet")]).fetchall():
                arrive(con, folder, day)
                ended.wait(pause)
            ended.wait()
        except KeyboardInterrupt:
            print("ended")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000, help="port of the page (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two days (default: %(default)s)")
    arguments = parser.parse_args()
    run(arguments.port, arguments.pause)
