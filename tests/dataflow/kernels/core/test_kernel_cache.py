"""Laws of the cache of compiled kernels: whole files are used, and kernels in damaged files are compiled again."""

from __future__ import annotations

import importlib
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pkgutil import walk_packages

import pytest
from numba import config, njit, types
from support.paths import ROOT

from deltamark.dataflow import kernels
from deltamark.dataflow.kernels.core import cache
from deltamark.dataflow.kernels.core.dispatcher import KernelDispatcher
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap


def test_kernels_of_a_module_have_different_names():
    """Otherwise the linker may call one of them for the other, if two processes have compiled them."""
    modules = [importlib.import_module(each.name) for each in walk_packages(kernels.__path__, f"{kernels.__name__}.")]
    found = {
        id(each): each for module in modules for each in vars(module).values() if isinstance(each, KernelDispatcher)
    }
    names = Counter((each.py_func.__module__, each.py_func.__qualname__) for each in found.values())
    assert len(names) > 100
    assert [name for name, times in names.items() if times > 1] == []


def use() -> tuple[int, int]:
    """Use a small kernel as a new process would; return the numbers of its cache hits and misses."""
    memory, mask = Memory(), 31
    block = KeyMap(memory.reserve(KeyMap.size_in_words))
    table, free, keys = (memory.reserve(words) for words in (2 * (mask + 1), 64, 64))
    words = KeyMap.words(hashed=1, low=0, high=0, mask=mask, table=table, free=free, keys=keys)
    view(block.address, len(words))[:] = words
    fresh = njit(cache=True, error_model="numpy")(hash_map.find.py_func)
    hash_map.add(block, 7)
    assert fresh(block, 7) == 0
    assert fresh(block, 8) == -1
    memory.close()
    return sum(fresh.stats.cache_hits.values()), sum(fresh.stats.cache_misses.values())


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    assert use() == (0, 1)
    assert use() == (1, 0)
    return tmp_path / "deltamark.dataflow.kernels.hashing.hash_map"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def into_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE = {
    "cut off": lambda path: os.truncate(path, path.stat().st_size - 1),
    "cut off early": lambda path: os.truncate(path, 20),
    "empty": lambda path: os.truncate(path, 0),
    "garbage": lambda path: path.write_bytes(b"\xff" * 1000),
    "another pickle": lambda path: path.write_bytes(pickle.dumps(("0.0", {}))),
    "a byte is another": flip,
    "gone": Path.unlink,
    "a loop of links": lambda path: (path.unlink(), path.symlink_to(path)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_file_is_compiled_again(directory, damage):
    (path,) = directory.iterdir()
    DAMAGE[damage](path)
    assert use() == (0, 1)
    assert use() == (1, 0)


def test_a_directory_in_place_of_a_file_stops_nothing(directory):
    (path,) = directory.iterdir()
    into_directory(path)
    assert use() == (0, 1)
    assert use() == (0, 1)
    assert not list(directory.glob("*.tmp.*"))


def files_of(directory):
    return cache.Files(str(directory), "module.kernel-1.py311", b"stamp")


def test_processes_that_store_different_keys_at_once_do_not_mix_them(tmp_path):
    files = [files_of(tmp_path), files_of(tmp_path)]
    keys = [(types.int64,), (types.int32,)]
    stored = threading.Barrier(2)

    def dump(value):
        stored.wait(10)  # each has chosen a name before the other has written
        return pickle.dumps(value)

    with ThreadPoolExecutor(2) as threads:
        for each in files:
            each._dump = dump
        list(threads.map(cache.Files.save, files, keys, ["one", "other"]))
    assert [files_of(tmp_path).load(key) for key in keys] == ["one", "other"]


def test_a_file_of_another_key_is_not_loaded(tmp_path):
    one, other = (types.int64,), (types.int32,)
    files = files_of(tmp_path)
    files.save(one, "one")
    (path,) = tmp_path.iterdir()
    path.rename(files._path(other))
    assert files.load(other) is None


def test_a_file_in_place_of_the_directory_stops_nothing(directory):
    shutil.rmtree(directory)
    directory.touch()
    assert use() == (0, 1)
    assert use() == (0, 1)


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), OSError(28, "No space left on device")])
def test_a_cache_that_cannot_be_written_to_stops_nothing(directory, error, monkeypatch):
    def fail(*_):
        raise error

    shutil.rmtree(directory)
    monkeypatch.setattr(cache.Files, "_open_for_write", fail)
    assert use() == (0, 1)


def test_functions_outside_the_package_are_cached_by_numba(monkeypatch):
    monkeypatch.setattr(config, "CACHE_LOCATOR_CLASSES", "InTreeCacheLocator")
    assert not isinstance(cache.Cache(use)._cache_file, cache.Files)


def test_numbas_setting_is_the_place_of_the_directory(tmp_path, monkeypatch):
    """Numba itself does not distinguish sources of other kernels, nor checked kernels."""
    usual = kernels._cache_directory()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert kernels._cache_directory() == tmp_path / usual.name


@pytest.mark.parametrize("home", ["/proc/nothing", "a file"])
def test_without_a_usable_home_kernels_lie_among_temporary_files(tmp_path, monkeypatch, home):
    (tmp_path / "a file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = kernels._cache_directory()
    assert found.parent == tmp_path / f"deltamark-{os.getuid()}"
    assert found.is_dir()


def test_a_temporary_directory_of_another_user_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert kernels._is_usable(tmp_path) == (tmp_path.stat().st_uid == 0)
    monkeypatch.setattr(kernels.Path, "stat", lambda _: os.stat_result([0o40777, 0, 0, 0, 777, 0, 0, 0, 0, 0]))
    assert not kernels._is_usable(tmp_path)


def test_a_process_finds_its_kernels_damaged(tmp_path):
    """Damage the files of every kernel that another process needs, as a user may."""
    package = "deltamark.dataflow.kernels"
    imports = f"from {package}.core import memory; from {package}.hashing import hash_map"
    script = f"{imports}; own = memory.Memory(); hash_map.needs_rehash(hash_map.KeyMap(own.reserve(16)), 1)"
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, "")
        written = list(tmp_path.rglob("*.nbc"))
        assert written
        for path in written:
            path.write_bytes(b"garbage")
