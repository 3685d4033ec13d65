"""SQLite as an engine for tests, without packages but pyarrow: `sqlite_program.py [FAULT] [WORD ...]`.

FAULT is a method of `Faults`, or `right`. A text that has one of the words is refused.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import Counter, deque
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

TYPES = {"int64": "BIGINT", "date32": "TEXT", "string": "VARCHAR"}


class Faults:
    """The faults of an engine: functions of the present answer and the one before."""

    @staticmethod
    def right(now, _before):
        return now

    @staticmethod
    def loses_groups(now, before):
        """Lose a row that has changed, if there was any."""
        return now[:-1] if before and now != before else now

    @staticmethod
    def fails(now, before):
        if before and now != before:
            raise ArithmeticError("expected a positive weight, found -1")
        return now

    @staticmethod
    def hangs(now, before):
        if before and now != before:
            time.sleep(1000)
        return now


class Engine:
    def __init__(self, fault="right", *words):
        self.fault, self.words = getattr(Faults, fault), words

    def hello(self, _):
        return {"protocol": 1, "name": "SQLite", "output": "answers", "nulls": "NULL" not in self.words}

    def open(self, request):
        if any(word in request["sql"] for word in self.words):
            return {"refused": "a word is not supported"}
        self.directory, self.sql = Path(request["directory"]), request["sql"]
        self.columns = request["answer"]
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        self.tables = {name: each["columns"] for name, each in request["relations"].items()}
        self.numbers, self.arrived, self.rows = {}, 0, []
        for name, columns in self.tables.items():
            declared = ", ".join(f"{column} {TYPES.get(type_, 'REAL')}" for column, type_ in columns)
            self.database.execute(f"CREATE TABLE {name} (arrival INTEGER PRIMARY KEY, {declared})")
        try:
            self.database.execute(self.sql).fetchall()
        except sqlite3.Error as error:
            return {"refused": str(error)}
        return {}

    def feed(self, request):
        self.batch = [
            (name, pa.ipc.open_file(str(self.directory / file)).read_all())
            for name, file in request["relations"].items()
        ]
        return {}

    def apply(self, _):
        for name, changes in self.batch:
            for row in changes.to_pylist():
                del row["time"]
                diff, values = row.pop("diff"), tuple(map(stored, row.values()))
                numbers = self.numbers.setdefault((name, values), deque())
                if diff > 0:
                    self.arrived += 1
                    numbers.append(self.arrived)
                    places = ", ".join("?" * (len(values) + 1))
                    self.database.execute(f"INSERT INTO {name} VALUES ({places})", (self.arrived, *values))
                else:
                    self.database.execute(f"DELETE FROM {name} WHERE arrival = ?", (numbers.popleft(),))
        now = sorted(Counter(self.database.execute(self.sql).fetchall()).elements(), key=str)
        self.rows = self.fault(now, self.rows)
        return {"changes": len(self.rows)}

    def answer(self, _):
        arrays = [pa.array([given(row[at], type_) for row in self.rows]) for at, (_, type_) in enumerate(self.columns)]
        table = pa.table(arrays, [name for name, _ in self.columns])
        with pa.ipc.new_file(str(self.directory / "answer.arrow"), table.schema) as file:
            file.write_table(table)
        return {"file": "answer.arrow"}

    def state(self, _):
        return {}

    def end(self, _):
        self.database.close()
        return {}


def stored(value):
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


def given(value, type_):
    return date.fromisoformat(value) if type_ == "date32" and value is not None else value


def serve(engine, requests, replies):
    for line in requests:
        request = json.loads(line)
        if request["do"] == "close":
            break
        try:
            reply = getattr(engine, request["do"])(request)
        except ArithmeticError as error:
            reply = {"error": str(error)}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    serve(Engine(*sys.argv[1:]), sys.stdin, sys.stdout)
