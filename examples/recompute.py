"""An engine for `make bench ENGINES=exec:examples/recompute.py`: runs the query again after every batch, in DuckDB.

docs/protocol.md describes the protocol. Any program that speaks it, in any language, can stand here.
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa

TYPES = {"int64": "BIGINT", "date32": "DATE", "string": "VARCHAR"}


def declared(columns):
    """Return the columns of CREATE TABLE; the type `decimal(2)` is DECIMAL(15, 2)."""
    return ", ".join(f"{name} {TYPES.get(type_) or type_.replace('(', '(15, ')}" for name, type_ in columns)


class Query:
    """A query: its last answer, and the changes that the harness has not taken."""

    def __init__(self, database, sql):
        self.sql, self.schema = sql, database.sql(sql).to_arrow_table().schema
        self.answer, self.changed = Counter(), []


class Engine:
    def hello(self, _):
        name = f"DuckDB {duckdb.__version__}"
        return {
            "protocol": 2, "name": name, "output": "batches", "maintains": False, "nulls": True, "attaches": True,
        }  # fmt: skip

    def open(self, request):
        if not request["relations"]:
            return {"refused": "a query without relations"}
        self.directory, self.time = Path(request["directory"]), None
        self.database = duckdb.connect(config={"threads": request["workers"]})
        self.columns = {name: each["columns"] for name, each in request["relations"].items()}
        for name, columns in self.columns.items():
            self.database.execute(f"CREATE TABLE {name} ({declared(columns)})")
        self.first = request["query"]
        self.queries = {self.first: Query(self.database, request["sql"])}
        return {}

    def attach(self, request):
        query = self.queries[request["query"]] = Query(self.database, request["sql"])
        return {"changes": 0 if self.time is None else self.changes_of(query)}

    def feed(self, request):
        files = {name: self.directory / file for name, file in request["relations"].items()}
        self.batch = {name: pa.ipc.open_file(pa.memory_map(str(path))).read_all() for name, path in files.items()}
        self.time = request["time"]
        return {}

    def apply(self, _):
        started = time.perf_counter()
        for name, batch in self.batch.items():
            names = [column for column, _ in self.columns[name]]
            columns, same = ", ".join(names), " AND ".join(f"live.{n} IS NOT DISTINCT FROM gone.{n}" for n in names)
            self.database.register("batch", batch)
            self.database.execute(f"INSERT INTO {name} SELECT {columns} FROM batch WHERE diff > 0")
            if batch["diff"].to_numpy().min(initial=0) < 0:
                self.database.execute(f"""
                    DELETE FROM {name} WHERE rowid IN (
                        SELECT row FROM (SELECT rowid AS row, row_number() OVER (PARTITION BY {columns}) AS copy,
                                                {columns} FROM {name}) AS live
                        JOIN (SELECT {columns}, count(*) AS copies FROM batch WHERE diff < 0 GROUP BY ALL) AS gone
                        ON {same} WHERE copy <= copies)""")
        changes = sum(self.changes_of(query) for query in self.queries.values())
        return {"changes": changes, "seconds": time.perf_counter() - started}

    def changes_of(self, query):
        """Compute the changes of a query; return their number."""
        changed = self.difference(query)
        query.changed += changed
        return len(changed)

    def difference(self, query):
        """Run a query; return the changes from its last answer to this one."""
        rows = self.database.sql(query.sql).to_arrow_table()
        now = Counter(zip(*(column.to_pylist() for column in rows.columns)))
        changed = [(self.time, now[row] - query.answer[row], *row) for row in now.keys() | query.answer.keys()]
        query.answer = now
        return [change for change in changed if change[1]]

    def changes(self, request):
        query = self.queries[request.get("query", self.first)]
        columns = [[row[at] for row in query.changed] for at in range(2 + len(query.schema))]
        named = {"time": pa.int64(), "diff": pa.int64(), **dict(zip(query.schema.names, query.schema.types))}
        table = pa.table([pa.array(values, type_) for values, type_ in zip(columns, named.values())], [*named])
        with pa.ipc.new_file(str(self.directory / "changes.arrow"), table.schema) as file:
            file.write_table(table)
        query.changed = []
        return {"file": "changes.arrow"}

    def state(self, _):
        return {"rows": sum(self.database.table(name).shape[0] for name in self.columns)}

    def end(self, _):
        self.database.close()
        return {}


def serve(engine, requests, replies):
    for line in requests:
        request = json.loads(line)
        if request["do"] == "close":
            break
        print(json.dumps(getattr(engine, request["do"])(request)), file=replies, flush=True)


if __name__ == "__main__":
    serve(Engine(), sys.stdin, sys.stdout)
