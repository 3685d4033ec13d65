"""Records of many commits: series with steps, written to directories and to branches of git repositories."""

from __future__ import annotations

import os
import subprocess

import msgspec
import numpy as np
from support.harness.records import changed
from support.harness.report_records import FACTS, record, session

from deltamark.harness.compare.trees import COMMITTER
from deltamark.harness.results import store
from deltamark.harness.tables.history import commit_history, relation

NOISE = 0.03
FIRST_DAY = np.datetime64("2026-01-01")


def noisy_step(seed, size, at, ratio):
    """Return log seconds with noise, larger by a ratio from a position on."""
    values = np.random.default_rng(seed).normal(0, NOISE, size)
    values[at:] += np.log(ratio)
    return list(values)


def commit_name(number):
    return f"{number + 1:07x}"


def measured(logs, machine="m", **changes):
    """Return a record for each commit; each is measured on a day of its own, by code of its own."""
    return [
        changed(
            record(
                seconds=float(np.exp(log)), commit=commit_name(number), session=machine, code=f"code {number}",
                finished_at=f"{FIRST_DAY + number}T12:00:00+00:00", key=f"{number} {machine}",
            ),
            **changes,
        )
        for number, log in enumerate(logs)
    ]  # fmt: skip


def header(machine):
    return {**session(machine), "machine": {**FACTS, "cpu": f"CPU of {machine}"}}


def history_of(records, known=None):
    """Return the history of records whose session is the name of their machine."""
    headers = {name: header(name) for name in {each.session for each in records}}
    return commit_history(relation([(records, headers)]), known or {})


def write(directory, records):
    """Write records and the headers of their sessions."""
    directory.mkdir(parents=True)
    lines = map(msgspec.json.encode, records)
    (directory / store.RECORDS).write_bytes(b"".join(line + b"\n" for line in lines))
    headers = [msgspec.json.encode(header(name)) for name in sorted({each.session for each in records})]
    (directory / store.SESSIONS).write_bytes(b"".join(line + b"\n" for line in headers))


def git(directory, *words, **variables):
    environment = os.environ | COMMITTER | variables
    done = subprocess.run(["git", *words], cwd=directory, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()
