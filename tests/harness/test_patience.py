"""The limits of the tests follow the speed of the machine."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support import patience


@pytest.mark.parametrize(("slower", "longer"), [(0.5, 1), (1, 1), (3, 3)])
def test_limits_grow_with_the_time_of_a_fixed_piece_of_work(monkeypatch, slower, longer):
    monkeypatch.setenv(patience.VARIABLE, "")
    monkeypatch.delenv(patience.VARIABLE)
    moments = iter([0.0, slower * patience.WORK_S])
    monkeypatch.setattr(patience, "time", SimpleNamespace(perf_counter=moments.__next__))
    patience.measure_patience()
    assert patience.patient(600) == pytest.approx(600 * longer)
    patience.measure_patience()  # the processes of a run have the patience of the first one
    assert patience.patient(600) == pytest.approx(600 * longer)
