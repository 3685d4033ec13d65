"""Saved states: the state of a dataflow in a file, and a dataflow that continues from it without reading its inputs.

A file has the bytes of the memory, page by page, and not the rows of each operator. It is restored into the program of
the same plans, which is compiled anew. That has the same words and arrays at other addresses, so addresses are replaced
while words are read; of all arrays, only the heap of texts is referred to by addresses in another array.

The image of a program (see `builder.images`) proves that the two are the same program. If it differs, or the file is
of another version, another machine or other plans, or is damaged in any byte, restoring raises an error, and the
dataflow that it has begun is closed.

    header      magic, the place and the length of the manifest, and checksums
    sections    words, pages of arrays, answers; each with its checksum in the manifest
    manifest    JSON
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import platform
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from deltamark.dataflow.answer import Answer
from deltamark.dataflow.builder.images import (
    ARRAY,
    DROPPED,
    NUMBER,
    WORD,
    Image,
    Places,
    name_of,
    words_of,
    write_words,
)
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.texts import compact, move_texts
from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.kernels.core.guard import CHECKED
from deltamark.dataflow.kernels.core.memory import Run
from deltamark.dataflow.kernels.core.pages import MIN_UNKNOWN_BYTES, PAGE_BYTES
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.live_plans import LivePlans, digests_of, present_plans
from deltamark.errors import DeltamarkError
from deltamark.sources import digest

MAGIC = b"deltamrk"

HEADER, CHECKSUM = struct.Struct("<8sQQI"), struct.Struct("<I")

PIECE_BYTES = 1 << 20
"""The bytes that are read or written at once, so that their checksum finds them in the cache. Not measured."""

FEED_ANEW = "feed the inputs anew"


class Section(NamedTuple):
    """A part of a file: its place, its length, and the CRC of its bytes."""

    offset: int
    size: int
    checksum: int


@cache
def engine() -> str:
    """Name the engine and the machine, which decide how the state of a plan lies in memory."""
    kernels = " checked" * CHECKED
    return f"{digest('deltamark.dataflow')} {platform.machine()} {sys.byteorder} {PAGE_BYTES}{kernels}"


class _Writer:
    """Writes sections to a file, behind the room for its header."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begin = file.tell()
        self._place = HEADER.size + CHECKSUM.size
        file.write(bytes(self._place))

    def add(self, contents: Iterable[memoryview | bytes]) -> Section:
        """Write a section."""
        offset, checksum = self._place, 0
        for content in contents:
            for piece in _pieces(content):
                self._file.write(piece)
                checksum = zlib.crc32(piece, checksum)
                self._place += len(piece)
        return Section(offset, self._place - offset, checksum)

    def end(self, manifest: Mapping[str, object]) -> None:
        """Write the manifest and the header."""
        header = HEADER.pack(MAGIC, *self.add([json.dumps(manifest).encode()]))
        self._file.seek(self._begin)
        self._file.write(header + CHECKSUM.pack(zlib.crc32(header)))


class _Reader:
    """Reads a file, whose manifest is correct."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begin = file.tell()
        header, size = file.read(HEADER.size), CHECKSUM.size
        if file.read(size) != CHECKSUM.pack(zlib.crc32(header)) or not header.startswith(MAGIC):
            raise _damaged()
        self.manifest: dict[str, Any] = json.loads(self.bytes(Section(*HEADER.unpack(header)[1:])))

    def bytes(self, section: Sequence[int]) -> bytearray:
        """Return a section."""
        content = bytearray(section[1])
        self.read(section, [memoryview(content)])
        return content

    def array(self, section: Sequence[int], kind: type[np.generic]) -> np.ndarray:
        """Return a section as an array of numbers."""
        return np.frombuffer(self.bytes(section), kind)

    def read(self, section: Sequence[int], targets: Iterable[memoryview]) -> None:
        """Read a section into memory."""
        offset, _, expected = section
        checksum = 0
        self._file.seek(self._begin + offset)
        for target in targets:
            for piece in _pieces(target):
                if self._file.readinto(piece) != len(piece):  # type: ignore[attr-defined]  # files have it
                    raise _damaged()
                checksum = zlib.crc32(piece, checksum)
        if checksum != expected:
            raise _damaged()


def _pieces(content: memoryview | bytes) -> Iterator[memoryview]:
    whole = memoryview(content)
    return (whole[at : at + PIECE_BYTES] for at in range(0, len(whole), PIECE_BYTES))


def _memory(address: int, runs: Iterable[Run]) -> Iterator[memoryview]:
    """Yield the bytes of an array."""
    for offset, size in runs:
        yield memoryview((ctypes.c_char * size).from_address(address + offset)).cast("B")


def save(plans: LivePlans, file: BinaryIO) -> None:
    """Write the state of a dataflow, between two feeds, behind the present place of a file."""
    plans.refuse_unsettled()
    writer, worker = _Writer(file), plans.worker
    compiled = [each.compiled for each in plans.workers]
    programs = [_saved(writer, *each) for each in zip(compiled, plans.images.of, strict=True)]
    writer.end({
        "engine": engine(),
        "steps": plans.steps,
        "last": worker.last,
        "live": {name: each.live for name, each in worker.bindings.items()},
        "answers": {name: writer.add([_written(each.stored())]) for name, each in plans.kept.items()},
        "programs": programs,
    })  # fmt: skip


def restored(plans: Mapping[str, Collection], retired: Iterable[Collection], workers: int, file: BinaryIO) -> LivePlans:
    """Return the dataflow that continues from a state, which begins at the present place of a file.

    retired: the plans that were retired before the state was saved. They are compiled and retired again, because the
    places of all words and arrays depend on it.
    """
    reader = _Reader(file)
    manifest, given = reader.manifest, {digests_of({"": each})[""]: each for each in (*plans.values(), *retired)}
    if manifest["engine"] != engine():
        actual = f"{manifest['engine']}, this is {engine()}"
        raise DeltamarkError("a state of another version, or of another machine", actual, FEED_ANEW)
    steps, programs = manifest["steps"], manifest["programs"]
    present = present_plans(steps)
    if present != digests_of(plans) or len(programs) != workers:
        actual = f"{', '.join(present) or 'no plans'}; workers: {len(programs)}"
        raise DeltamarkError("a state of other plans, or of another number of workers", actual, FEED_ANEW)
    if lost := {digest for step in steps for digest in step.values() if digest} - given.keys():
        remedy = f"give all of them as retired=, or {FEED_ANEW}"
        raise DeltamarkError("a state that plans have shared which were retired", f"{len(lost)} are not given", remedy)
    first, *others = steps
    live = LivePlans({name: given[digest] for name, digest in first.items()}, workers)
    try:
        live.replay(others, given)
        for worker, image, saved in zip(live.workers, live.images.of, programs, strict=True):
            _restore(reader, worker.compiled, image, saved)
            worker.last = manifest["last"]
        for name, binding in live.worker.bindings.items():
            binding.live = manifest["live"][name]
        for name, section in manifest["answers"].items():
            live.kept[name] = Answer.of(live.schemas[name], pa.ipc.open_stream(reader.bytes(section)).read_all())
    except BaseException:
        live.close()
        raise
    return live


def _written(table: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return memoryview(sink.getvalue())


def _saved(writer: _Writer, compiled: Compiled, image: Image) -> Mapping[str, object]:
    """Write the words and arrays of a program; return their sections.

    An address is written as the distance from the beginning of what it lies in now. Words whose address is of code, of
    another worker or of nothing have no value: they are those of the new program.
    """
    program, texts = compiled.program, compiled.program.sweeper.texts
    if texts is not None:
        compact(texts)
    places, words = Places([program]), words_of(program)
    kinds, values = places.positions(words)
    at, _ = places.find(words)
    kinds = np.where(np.isin(image.kinds, (WORD, ARRAY)), np.where(kinds == NUMBER, DROPPED, kinds), image.kinds)
    is_array = kinds == ARRAY
    numbers, owners = np.unique(at[is_array], return_inverse=True)
    addresses = places.starts[numbers].tolist()
    return {
        "identity": identity(compiled, image),
        "kinds": writer.add([kinds.astype(np.int8).tobytes()]),
        "values": writer.add([np.where(kinds == NUMBER, words, values).tobytes()]),
        "owners": writer.add([owners.astype(np.int32).tobytes()]),
        "arrays": _saved_arrays(writer, compiled, addresses),
        "heap": 0 if texts is None else texts.heap,
        "swept": program.sweeper.remaining,
    }


def _saved_arrays(writer: _Writer, compiled: Compiled, addresses: Sequence[int]) -> list[Mapping[str, object]]:
    """Write the pages of arrays, except for those that have the rows of a slice or the changes of a feed."""
    memory, passing = compiled.program.memory, {each for root in compiled.roots.values() for each in root.vectors}
    kept, sizes = compiled.program.state_memory().keys() - passing, memory.sizes()
    try:
        pages = memory.used([each for each in addresses if each in kept])
    except OSError as error:
        raise DeltamarkError("a state that cannot be saved", f"{error}", "run on Linux 6.7 or later") from None
    runs = {each: _within(sizes[each], pages.get(each, ())) for each in addresses}
    return [
        {"size": sizes[each], "runs": runs[each], "content": writer.add(_memory(each, runs[each]))}
        for each in addresses
    ]


def _within(size: int, runs: Iterable[Run]) -> list[Run]:
    """Cut off what lies behind the end of an array, in its last page: another array begins elsewhere in its page."""
    return [Run(offset, min(length, size - offset)) for offset, length in runs if offset < size]


def identity(compiled: Compiled, image: Image) -> str:
    """Return a digest of a program that is the same in all processes in which it is the same program."""
    program, places = compiled.program, Places([compiled.program])
    chunks = [end - start for start, end in program.chunks.items()]
    ops = [(name_of(op.step.kernel), op.step.name, places.distance(op.block), op.late) for op in program.ops]
    inputs = {name: (each.names, [(key, width) for key, (_, width) in each.arrays.items()])
              for name, each in compiled.inputs.items()}  # fmt: skip
    roots = {name: (each.names, each.arrays, each.texts, places.distance(each.block))
             for name, each in compiled.roots.items()}  # fmt: skip
    found = hashlib.blake2b(repr((chunks, ops, inputs, roots)).encode(), digest_size=16)
    found.update(image.kinds.astype(np.int8).tobytes())
    found.update(image.values.tobytes())
    return found.hexdigest()


def _restore(reader: _Reader, compiled: Compiled, image: Image, saved: Mapping[str, Any]) -> None:
    """Read the words and arrays of a program, which no feed has changed yet."""
    program, texts = compiled.program, compiled.program.sweeper.texts
    if saved["identity"] != identity(compiled, image):
        raise _of_another_program()
    places, fresh = Places([program]), words_of(program)
    kinds = reader.array(saved["kinds"], np.int8)
    values, owners = reader.array(saved["values"], np.int64), reader.array(saved["owners"], np.int32)
    is_array, arrays = kinds == ARRAY, saved["arrays"]
    addresses = np.array(_addresses(program, places, fresh[is_array], owners, arrays), np.int64)
    for address, each in zip(addresses.tolist(), arrays, strict=True):
        program.memory.clear(address)
        reader.read(each["content"], _memory(address, map(Run._make, each["runs"])))
    machine = {cell: program.read(cell) for cell in (program.spins, program.delays)}
    words = np.where(kinds == NUMBER, values, fresh)
    words[is_array] = addresses[owners] + values[is_array]
    words[kinds == WORD] = _words_at(program, values[kinds == WORD])
    write_words(program, words)
    for cell, content in machine.items():
        program.write(cell, content)
    if texts is not None:
        move_texts(texts, texts.heap - saved["heap"])
    program.sweeper.remaining = saved["swept"]


def _words_at(program: Program, distances: np.ndarray) -> np.ndarray:
    """Return the addresses of words at distances from the first word of a program."""
    starts, ends = np.array(list(program.chunks.items()), np.int64).T
    offsets = np.append(0, np.cumsum(ends - starts))
    at = np.searchsorted(offsets, distances, "right") - 1
    return starts[at] + distances - offsets[at]


def _addresses(
    program: Program, places: Places, words: np.ndarray, owners: np.ndarray, arrays: Sequence[Mapping[str, Any]]
) -> list[int]:
    """Return the address of each saved array: that of the array to which the same words refer in the new program.

    words: those that were the addresses of arrays when the state was saved; owners: the number of the saved array of
    each.
    """
    found, _ = places.positions(words)
    at, _ = places.find(words)
    pairs = np.unique(np.stack([owners, at], 1)[found == ARRAY], axis=0)
    if pairs[:, 0].tolist() != list(range(len(arrays))) or len(np.unique(pairs[:, 1])) < len(arrays):
        raise _of_another_program()
    chosen, sizes = places.starts[pairs[:, 1]].tolist(), program.memory.sizes()
    return [_with_room(program, address, sizes[address], each) for address, each in zip(chosen, arrays, strict=True)]


def _with_room(program: Program, address: int, size: int, saved: Mapping[str, Any]) -> int:
    """Return the address of an array that has room for a saved one, which may have been enlarged."""
    if saved["size"] <= size:
        return address
    if size >= MIN_UNKNOWN_BYTES:  # an array of unknown size, for which there is less address space now
        if all(offset + length <= size for offset, length in saved["runs"]):
            return address
        raise DeltamarkError("no address space", f"{saved['size'] / 1e9:.1f} GB", "close other dataflows")
    larger = program.memory.reserve_whole(saved["size"] // 8, saved["size"] // 8)
    program.memory.replace(address, larger)
    return larger


def _damaged() -> DeltamarkError:
    return DeltamarkError("a state that is damaged", "a wrong checksum, or a part that is missing", FEED_ANEW)


def _of_another_program() -> DeltamarkError:
    return DeltamarkError("a state of another program", "its plans are compiled otherwise now", FEED_ANEW)
