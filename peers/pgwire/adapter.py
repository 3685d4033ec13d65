"""A server that speaks the protocol of PostgreSQL: COPY brings each batch, and then a view of the query is read.

By default a private PostgreSQL is started, whose materialized view is refreshed after each batch: the query runs again.
Options name another server, and the statements that create, refresh and read its view.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from ends import parts_of
from postgres import Postgres
from serve import Message, serve

MANIFEST = tomllib.loads((Path(__file__).parent / "peer.toml").read_text(encoding="utf-8"))


class Pgwire(Postgres):
    """The engine, with the server and the statements of the options."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.options, self.name, self.dsn = options, options.name, options.dsn

    def hello(self, request: Message) -> Message:
        return {**super().hello(request), "maintains": self.options.maintains}

    def prepare(self, sql: str) -> None:
        if self.dsn:  # a program that is no peer gets the text of DuckDB
            for pattern, replacement in MANIFEST["dialect"]:
                sql = re.sub(pattern, replacement, sql)
        body, end = parts_of(sql)
        self.reading = self.options.read.format(end=end)
        self.execute(self.options.create.format(query=sql, body=body))
        self.connection.commit()

    def run(self) -> pa.Table:
        """Refresh the view in the transaction of the batch, and read it."""
        if self.options.refresh:
            self.execute(self.options.refresh)
        return super().run()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", default="", help="of a server, in place of a private one")
    parser.add_argument("--name", default=MANIFEST["name"], help="of the engine and its version, for records")
    parser.add_argument(
        "--create", default="CREATE MATERIALIZED VIEW answer AS {query}", help="{body}: without the order and the limit"
    )
    parser.add_argument("--refresh", default="REFRESH MATERIALIZED VIEW answer")
    parser.add_argument("--read", default="SELECT * FROM answer", help="{end}: the order and the limit")
    parser.add_argument("--maintains", action="store_true", help="the server does not run the query again")
    return parser.parse_args()


if __name__ == "__main__":
    with closing(Pgwire(_options())) as pgwire:
        serve(pgwire)
