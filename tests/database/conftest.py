"""Fixtures of databases in files."""

from __future__ import annotations

import pytest

from deltamark.database.views import Views


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shop.db"


@pytest.fixture
def loads(monkeypatch):
    """The names of the views that were loaded from tables, once for each time."""
    found, load = [], Views._loaded

    def loaded(views, some, *more):
        found.append([each.name for each in some])
        return load(views, some, *more)

    monkeypatch.setattr(Views, "_loaded", loaded)
    return found
