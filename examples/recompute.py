"""An engine for `make bench ENGINES=exec:examples/recompute.py`: runs the query again after every feed, in DuckDB.

`harness/engines/external.py` describes the protocol. Any program that speaks it, in any language, can stand here.
"""

import json
import sys
from collections import Counter

import duckdb
import pyarrow as pa

TYPES = {"int64": "BIGINT", "decimal": "DECIMAL(15, 2)", "date32": "DATE", "string": "VARCHAR"}


class Engine:
    def open(self, request):
        self.database = duckdb.connect(config={"threads": request["workers"]})
        self.relations, self.sql = request["relations"], request["sql"]
        for name, columns in self.relations.items():
            self.database.execute(f"CREATE TABLE {name} ({', '.join(f'{c} {TYPES[t]}' for c, t in columns)})")
        self.held = Counter()

    def feed(self, batches):
        for name, batch in batches.items():
            columns = ", ".join(column for column, _ in self.relations[name])
            self.database.register("batch", batch)
            self.database.execute(f"INSERT INTO {name} SELECT {columns} FROM batch WHERE diff > 0")
            if batch["diff"].to_numpy().min() < 0:
                self.database.execute(f"""
                    DELETE FROM {name} WHERE rowid IN (
                        SELECT row FROM (SELECT rowid AS row, row_number() OVER (PARTITION BY {columns}) AS copy,
                                                {columns} FROM {name})
                        JOIN (SELECT {columns}, count(*) AS gone FROM batch WHERE diff < 0 GROUP BY ALL)
                        USING ({columns}) WHERE copy <= gone)""")
        last = max(batch["time"][-1].as_py() for batch in batches.values())
        return self.changes(self.database.sql(self.sql).to_arrow_table(), last)

    def changes(self, answer, time):
        """Return what is in this answer and was not in the last one, and the other way round."""
        now = Counter(zip(*(column.to_pylist() for column in answer.columns)))
        diffs = {row: now[row] - self.held[row] for row in now.keys() | self.held.keys() if now[row] != self.held[row]}
        self.held = now
        columns = [[row[at] for row in diffs] for at in range(answer.num_columns)]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, answer.schema)]
        times = [pa.array([time] * len(diffs), pa.int64()), pa.array(list(diffs.values()), pa.int64())]
        return pa.table([*times, *arrays], names=["time", "diff", *answer.schema.names])

    def state(self):
        return sum(self.database.table(name).shape[0] for name in self.relations)


def serve(engine, requests, answers):
    while (request := json.loads(requests.readline() or '{"do": "close"}'))["do"] != "close":
        if request["do"] == "open":
            engine.open(request)
            answer, changes = {"ok": True}, None
        elif request["do"] == "state":
            answer, changes = {"rows": engine.state()}, None
        else:
            batches = {name: pa.ipc.open_stream(requests).read_all() for name in request["relations"]}
            answer, changes = {"ok": True}, engine.feed(batches)
        answers.write(json.dumps(answer).encode() + b"\n")
        if changes is not None:
            with pa.ipc.new_stream(answers, changes.schema) as stream:
                stream.write_table(changes)
        answers.flush()


if __name__ == "__main__":
    serve(Engine(), sys.stdin.buffer, sys.stdout.buffer)
