"""Ctrl-C ends a feed, however long its kernels would run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from support.paths import ROOT
from support.patience import patient

FEED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
import numpy as np
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer
rows = source("rows", {{"a": integer(0, 10**5)}}, 10**9)
engine = Dataflow({plan}, workers={workers})
engine.push({{}})
many = np.zeros(10**5, np.int64)
each = np.arange(10**5)
print("begins", flush=True)
engine.push({{"rows": Batch(many + 1, many + 1, {{"a": each}})}})
print("ended by itself", flush=True)
"""
PLANS = {
    # each of 10**5 rows joins as many, and each pair as many again
    "join": "rows.cross(rows.rename(b='a')).cross(rows.rename(c='a')).count()",
    "loop": "rows.distinct().select(a=col.a * 2**30).iterate(lambda it: it.select(a=col.a + 1).distinct())",
}


@pytest.mark.parametrize(("plan", "workers"), [("join", 1), ("join", 2), ("loop", 1)])
def test_ctrl_c_ends_a_feed(plan, workers):
    script = FEED.format(plan=PLANS[plan], workers=workers)
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "begins\n"
        time.sleep(0.5)  # by then a kernel runs
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=patient(60))
    finally:
        process.kill()
    assert said == ""
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
