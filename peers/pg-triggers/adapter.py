"""PostgreSQL with triggers, as somebody would write them who wants a maintained answer without an extension."""

from __future__ import annotations

from contextlib import closing

from postgres import Postgres
from serve import Message, RefusedError, serve
from triggers import UnsupportedError, triggers_of


class Triggers(Postgres):
    """The engine. Triggers change the table of sums within each statement; a query reads it after the batch."""

    name = "PostgreSQL 15, triggers"
    attaches = False

    def hello(self, request: Message) -> Message:
        return {**super().hello(request), "maintains": True}

    def prepare(self, sql: str) -> str:
        try:
            made = triggers_of(sql)
        except UnsupportedError as error:
            raise RefusedError(error) from error
        for statement in made.statements:
            self.execute(statement)
        self.connection.commit()
        return made.reading


if __name__ == "__main__":
    with closing(Triggers()) as triggers:
        serve(triggers)
