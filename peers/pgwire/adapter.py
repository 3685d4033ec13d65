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
from recompute import Query
from serve import Message, serve

MANIFEST = tomllib.loads((Path(__file__).parent / "peer.toml").read_text(encoding="utf-8"))


class Pgwire(Postgres):
    """The engine, with the server and the statements of the options."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.options, self.name, self.dsn = options, options.name, options.dsn

    def hello(self, request: Message) -> Message:
        return {**super().hello(request), "maintains": self.options.maintains}

    def prepare(self, sql: str) -> str:
        if self.dsn:  # a program that is no peer gets the text of DuckDB
            for pattern, replacement in MANIFEST["dialect"]:
                sql = re.sub(pattern, replacement, sql)
        body, end = parts_of(sql)
        view = f"answer_{len(self.queries) + 1}" if self.queries else "answer"
        self.execute(self.options.create.format(query=sql, body=body, view=view))
        self.connection.commit()
        reading = self.options.read.format(end=end, view=view)
        self.refresh[reading] = self.options.refresh.format(view=view)
        return reading

    def begin(self) -> None:
        super().begin()
        self.refresh: dict[str, str] = {}
        """The statement that refreshes a view, by the one that reads it."""

    def run(self, query: Query) -> pa.Table:
        """Refresh the view in the transaction of the batch, and read it."""
        if refresh := self.refresh[query.reading]:
            self.execute(refresh)
        return super().run(query)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", default="", help="of a server, in place of a private one")
    parser.add_argument("--name", default=MANIFEST["name"], help="of the engine and its version, for records")
    parser.add_argument(
        "--create", default="CREATE MATERIALIZED VIEW {view} AS {query}", help="{body}: without the order and the limit"
    )
    parser.add_argument("--refresh", default="REFRESH MATERIALIZED VIEW {view}", help="{view}: one of several queries")
    parser.add_argument("--read", default="SELECT * FROM {view}", help="{end}: the order and the limit")
    parser.add_argument("--maintains", action="store_true", help="the server does not run the query again")
    return parser.parse_args()


if __name__ == "__main__":
    with closing(Pgwire(_options())) as pgwire:
        serve(pgwire)
