"""The directory of the Arrow files that the harness and a program exchange."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa

from deltamark.datagen import scratch

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (its files are in a directory of their own)
"""The directory of files that need no disk."""


class FileDirectory:
    """A new directory, in which a file has a plain name. A program may write whatever it likes into the directory.

    Files are opened below the open directory, and links are not followed. So a file is never read or removed elsewhere.
    """

    def __init__(self) -> None:
        shared = SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK)
        self.path = scratch.make(SHARED_MEMORY if shared else None)
        self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        """Write a new file."""
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._handle)
        with os.fdopen(handle, "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)

    def take(self, name: str) -> pa.Table:
        """Read and remove a file of the program. The values are a copy, since the program may still change the file."""
        if Path(name).name != name:
            raise ValueError(f"not the name of a file in the directory: {name}")
        # without O_NONBLOCK, a pipe without a writer would be waited for
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._handle)
        try:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise ValueError(f"not a regular file: {name}")
            if about.st_size > (free := psutil.virtual_memory().available):
                raise ValueError(f"a file of {about.st_size} bytes, with {free} bytes of memory left: {name}")
            with os.fdopen(handle, "rb", closefd=False) as file:
                table = pa.ipc.open_file(file).read_all()
        finally:
            os.close(handle)
        self.remove(name)
        table.validate(full=True)
        return table

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._handle)

    def close(self) -> None:
        """Remove the directory."""
        os.close(self._handle)
        scratch.remove(self.path)
