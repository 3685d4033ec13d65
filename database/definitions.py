"""Definitions of views: all that the plan of a view follows from, so that a later process can make an equal plan.

The saved state of views lies in memory as the compilations and retirements of plans have put it. So the plans of views
that were dropped are needed once more to restore the state, when their tables and views may be others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Self

from deltamark.dataflow.language.collection import Collection, declared
from deltamark.dataflow.operators.input import base_inputs
from deltamark.dataflow.sql.query import query
from deltamark.dataflow.types import Field, Type


@dataclass(frozen=True)
class Definition:
    """The text of a view, with those of the views and the declarations of the tables that it reads."""

    text: str
    views: Mapping[str, str]
    """The texts of the views that it reads, directly or by others, in the order of their creation."""
    tables: Mapping[str, Collection]

    def plan(self) -> Collection:
        return query(self.text, self.tables, self.views).collection

    def written(self) -> str:
        """Return the definition as JSON."""
        tables = {name: _written(each) for name, each in self.tables.items()}
        return json.dumps({"text": self.text, "views": list(self.views.items()), "tables": tables})

    @classmethod
    def read(cls, written: str) -> Self:
        found = json.loads(written)
        tables = {name: _read(name, each) for name, each in found["tables"].items()}
        return cls(found["text"], dict(found["views"]), tables)


def _written(table: Collection) -> Mapping[str, object]:
    (input_,) = base_inputs(table.node)
    fields = [(each.name, astuple(each.type), each.sql) for each in table.schema.fields]
    return {"fields": fields, "rows": table.schema.rows, "key": input_.key}


def _read(name: str, written: Mapping[str, Any]) -> Collection:
    fields = [
        Field(column, Type(kind, scale, low, high, tuple(words), nullable), sql)
        for column, (kind, scale, low, high, words, nullable), sql in written["fields"]
    ]
    return declared(name, fields, written["rows"], tuple(written["key"]))
