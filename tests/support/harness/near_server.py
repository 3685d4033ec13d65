"""The measurement server in the process of a test."""

from __future__ import annotations

import msgspec
from msgspec import structs

from deltamark.datagen.dataset import Dataset
from deltamark.harness.measure.client import CellReply, OracleReply, OracleRequest
from deltamark.harness.measure.server import QueryServer


class Near:
    """A client whose server is in this process, so that its children have the patches of a test."""

    def __init__(self, directory):
        self._server = QueryServer(Dataset.open(directory))

    def warm(self, benchmark="tpch"):
        self._server.warm(benchmark)

    def oracle_answers(self, cell, rounds, limit, moments=()):
        return self._reply(OracleRequest(cell, limit, tuple(rounds), tuple(moments)), OracleReply)

    def cell(self, request, beside=None):
        return self._reply(structs.replace(request, beside=beside), CellReply)

    def _reply(self, request, kind):
        return msgspec.convert(msgspec.to_builtins(self._server.reply(request)), kind)

    def close(self):
        self._server.close()
