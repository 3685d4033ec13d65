"""Uses of closed dataflows and their holds, each of which must be refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow, Hold
from deltamark.errors import DeltamarkError

CLOSED = "the dataflow is closed"


def save(dataflow: Dataflow, _: Collection) -> None:
    """Save the state to a file of its own."""
    with TemporaryDirectory() as directory:
        dataflow.save(Path(directory) / "state")


USES: Mapping[str, Callable[[Dataflow, Collection], object]] = {
    "inputs": lambda dataflow, _: dataflow.inputs,
    "schema": lambda dataflow, _: dataflow.schema,
    "schemas": lambda dataflow, _: dataflow.schemas,
    "pending": lambda dataflow, _: dataflow.pending,
    "feed": lambda dataflow, _: dataflow.feed({}),
    "push": lambda dataflow, _: dataflow.push({}),
    "feed_each": lambda dataflow, _: dataflow.feed_each({}, [1 << 40]),
    "push_each": lambda dataflow, _: dataflow.push_each({}, [1 << 40]),
    "attach": lambda dataflow, plan: dataflow.attach("late", plan, history={}),
    "retire": lambda dataflow, _: dataflow.retire(next(iter(dataflow.schemas))),
    "hold": lambda dataflow, _: dataflow.hold(),
    "state_rows": lambda dataflow, _: dataflow.state_rows(),
    "state_bytes": lambda dataflow, _: dataflow.state_bytes(),
    "states": lambda dataflow, _: dataflow.states(object),
    "explain": lambda dataflow, _: dataflow.explain(),
    "profile": lambda dataflow, _: dataflow.profile(),
    "sharing": lambda dataflow, _: dataflow.sharing(),
    "choices": lambda dataflow, _: dataflow.choices(),
    "keep": lambda dataflow, _: dataflow.keep(),
    "answer": lambda dataflow, _: dataflow.answer(),
    "has_failed": lambda dataflow, _: dataflow.has_failed,
    "last": lambda dataflow, _: dataflow.last,
    "save": save,
}
"""All public names of a dataflow but `close` and `restore`."""

HOLD_USES: Mapping[str, Callable[[Hold], object]] = {
    "release": lambda hold: hold.release(),
    "advance": lambda hold: hold.advance(hold.time),
}


def is_refused(use: Callable[[], object]) -> bool:
    """Return whether a use raises the error of closed handles."""
    try:
        use()
    except DeltamarkError as error:
        return error.cause == CLOSED
    return False
