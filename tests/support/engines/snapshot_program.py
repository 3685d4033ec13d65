"""The example engine with snapshots, each of which is a file: `snapshot_program.py [FAULT]`.

FAULT: what is wrong with it, or `right`.

- `loses`: a snapshot has the rows before the last batch, and claims to have those after it.
- `repeats`: after a restart the changes of the last batch come again, with those of the next one.
- `unwritten`: a snapshot of 1,000 bytes is claimed, and none is written.
- `unreadable`: a snapshot is written, and cannot be restored.
"""

from __future__ import annotations

import pickle
import runpy
import sys
from collections import Counter
from pathlib import Path

example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "recompute.py"))


class Engine(example["Engine"]):
    def __init__(self, fault: str = "right") -> None:
        self.fault, self.before, self.last, self.again = fault, (), [], []

    def hello(self, request):
        return {**super().hello(request), "snapshots": True, "attaches": False}

    def rows(self):
        """Return the tables and the answer."""
        answer = Counter(self.queries[self.first].answer)
        return {name: self.database.table(name).to_arrow_table() for name in self.columns}, answer

    def apply(self, request):
        if self.fault == "loses":
            self.before = self.rows()
        return super().apply(request)

    def difference(self, query):
        self.last = super().difference(query)
        changed, self.again = [*self.last, *((self.time, *change) for change in self.again)], []
        return changed

    def snapshot(self, request):
        if self.fault == "unwritten":
            return {"bytes": 1000}
        path = Path(request["directory"]) / "rows"
        path.write_bytes(pickle.dumps((self.time, self.last, *(self.before or self.rows()))))
        return {"bytes": path.stat().st_size}

    def restore(self, request):
        if self.fault == "unreadable":
            return {"error": "the snapshot is torn"}
        self.open(request)
        saved = pickle.loads((Path(request["snapshot"]) / "rows").read_bytes())
        self.time, last, tables, self.queries[self.first].answer = saved
        for name, table in tables.items():
            self.database.register("saved", table)
            self.database.execute(f"INSERT INTO {name} SELECT * FROM saved")
        if self.fault == "repeats":
            self.again = [change[1:] for change in last]
        return {"time": self.time}


if __name__ == "__main__":
    example["serve"](Engine(*sys.argv[1:]), sys.stdin, sys.stdout)
