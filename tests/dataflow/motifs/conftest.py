"""Fixtures of the tests of motifs."""

from __future__ import annotations

import pytest


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make slices so small that a time takes several."""
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 3)
