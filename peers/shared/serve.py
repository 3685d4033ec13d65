"""The loop of an adapter in Python: requests of the engine protocol (docs/protocol.md) become calls of an engine."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

Message = Mapping[str, Any]


class RefusedError(Exception):
    """A query that the engine does not support; the text is the reason."""


class Engine(Protocol):
    """An engine. Its methods take requests and return replies, as the page describes them."""

    def hello(self, request: Message) -> Message: ...
    def open(self, request: Message) -> Message: ...
    def feed(self, request: Message) -> Message: ...
    def apply(self, request: Message) -> Message: ...
    def state(self, request: Message) -> Message: ...
    def end(self, request: Message) -> Message: ...


def serve(engine: Engine) -> None:
    """Serve requests until the harness closes the program."""
    replies, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not be taken for a reply
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "close":
            break
        try:
            reply = getattr(engine, request["do"])(request)
        except RefusedError as error:
            reply = {"refused": one_line(error)}
        except Exception as error:  # noqa: BLE001 (the harness reports it)
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {one_line(error)}"}
        print(json.dumps(reply), file=replies, flush=True)


def one_line(error: object, limit: int = 200) -> str:
    """Return the beginning of an error message as one line."""
    return " ".join(str(error).split())[:limit]


def read(directory: Path, file: str) -> pa.Table:
    """Read a file of rows, with words instead of dictionaries."""
    table = pa.ipc.open_file(pa.memory_map(str(directory / file))).read_all()
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.string()))
    return table


def write(directory: Path, file: str, table: pa.Table) -> Message:
    """Write a file; return the reply that names it."""
    with pa.ipc.new_file(str(directory / file), table.schema) as writer:
        writer.write_table(table)
    return {"file": file}
