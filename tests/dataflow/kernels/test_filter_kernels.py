"""Kernels of filters against numpy, for any processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines.filter_kernels import ColumnTest, FilterRun, wrong_cases
from support.paths import ROOT

from deltamark.dataflow.types import LARGEST, NULL

WORDS = st.sampled_from([NULL, NULL + 1, -1, 0, 1, LARGEST]) | st.integers(-5, 5) | st.integers(NULL, LARGEST)
NARROW = st.sampled_from([-(2**31), 2**31 - 1]) | st.integers(-5, 5) | st.integers(-(2**31), 2**31 - 1)
ROWS = 140
"""Rows of two chunks and of a part of a third."""

selections = st.none() | st.lists(st.booleans(), min_size=ROWS, max_size=ROWS).map(np.flatnonzero)


def repeated(values):
    """Return the rows of a few values, whose repetition costs hypothesis nothing."""
    return np.resize(np.array(values, np.int64), ROWS)


@given(st.sampled_from([8, 4]), st.data(), selections, WORDS, WORDS)
def test_a_range_keeps_the_selected_rows_within_its_bounds(width, data, selected, low, high):
    values = repeated(data.draw(st.lists(WORDS if width == 8 else NARROW, min_size=1, max_size=70)))
    test = ColumnTest(values, low, high, width=width)
    rows = range(ROWS) if selected is None else selected
    assert FilterRun().kept_rows([test], selected) == [row for row in rows if low <= values[row] <= high]


@pytest.mark.parametrize(
    ("low", "high"), [(2**31, 2**40), (-(2**40), -(2**31) - 1), (2**32, 2**32), (-(2**32), -(2**32))]
)
def test_a_range_beyond_4_bytes_keeps_no_value_of_4_bytes(low, high):
    values = repeated([0, -1, 1, 2**31 - 1, -(2**31)])
    assert FilterRun().kept_rows([ColumnTest(values, low, high, width=4)], None) == []


@given(st.lists(st.booleans(), max_size=ROWS), st.booleans())
def test_a_condition_keeps_the_selected_rows_that_meet_it(condition, is_selection):
    rows = 3 * np.arange(len(condition))
    kept = FilterRun().true_rows(np.array(condition, int), rows if is_selection else None)
    assert kept == (rows if is_selection else np.arange(len(condition)))[np.array(condition, bool)].tolist()


def test_filters_keep_the_rows_of_numpy():
    assert wrong_cases() == []


@pytest.mark.parametrize("features", ["", "+sse4.2,+avx,+avx2,+bmi,+bmi2,+popcnt"], ids=["any processor", "AVX2"])
def test_filters_keep_the_rows_of_numpy_without_instructions_for_it(features):
    assert wrong_cases_with({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}) == []


def test_checked_filters_keep_the_rows_of_numpy(checked_environment):
    assert wrong_cases_with(checked_environment) == []


def wrong_cases_with(environment):
    """Return the wrong cases of a process with another environment."""
    script = "import json; from support.engines.filter_kernels import wrong_cases; print(json.dumps(wrong_cases()))"
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "tests", env={**os.environ, **environment}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
