"""Blocks: structures of int64 words in memory, declared once for kernels and for Python.

A block is declared as a class whose annotations are its fields, in order, one word each:

    class JoinBlock(Block):
        left: ArrangementBlock      the word is the address of another block
        size: Cell                  the word is the address of a word, which `block.size` reads and writes
        time: Vector                the word is the address of a cell that holds the address of an array
        hits: Array                 the word is the address of an array of int64
        overflow: int = 0           the word is a number
        first: Int32                the number takes half a word
        values: Inline              the array of the words behind the block; only the last field

`JoinBlock(address)` is the block at an address, in kernels and in Python. In kernels an access compiles to the loads
that it stands for, without any call; checked kernels verify each of them. `JoinBlock.words(left=..., ...)` returns
the words of a new block; fields without a default must be given.
"""

from __future__ import annotations

import ctypes
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin, get_type_hints, overload

from numba.extending import register_jitable

from deltamark.dataflow.kernels.core.block_types import declare
from deltamark.dataflow.kernels.core.guard import check_view

NONE: Any = 0
"""The default of a field that holds no address yet."""
CELL, HALF, INLINE = "cell", "half", "inline"
"""Kinds of fields: behind a cell, in half a word, or the words behind the block."""


class Array:
    """An array of int64 at an address."""

    layout: ClassVar[str] = "array"
    bits: ClassVar[int] = 64
    _element: ClassVar[type[ctypes.c_int64 | ctypes.c_int32 | ctypes.c_uint8]] = ctypes.c_int64

    def __init__(self, address: int | Array) -> None:
        self.address: int = address.address if isinstance(address, Array) else address

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: int | slice) -> int | Self:
        """Return an element, or for `array[start:]` the array that begins there."""
        if isinstance(at, slice):
            return type(self)(self.address + self.bits // 8 * at.start)
        return int(self._at(at).value)

    def __setitem__(self, at: int, value: int) -> None:
        self._at(at).value = value

    def _at(self, at: int) -> ctypes.c_int64 | ctypes.c_int32 | ctypes.c_uint8:
        size = self.bits // 8
        check_view(self.address + size * at, size)
        return self._element.from_address(self.address + size * at)


class Array32(Array):
    """An array of int32 at an address."""

    bits, _element = 32, ctypes.c_int32


class Array8(Array):
    """Bytes at an address."""

    bits, _element = 8, ctypes.c_uint8


class AddressTable:
    """A table of addresses of elements, or of cells that hold them."""

    layout: ClassVar[str] = "table"
    element: ClassVar[type[Array | int]] = Array
    through_cells: ClassVar[bool] = False

    def __init__(self, address: int) -> None:
        self.address = address


class Arrays(AddressTable):
    """A table of addresses of arrays."""

    def __getitem__(self, at: int) -> Array:
        return Array(Array(self.address)[at])

    def __setitem__(self, at: int, value: Array) -> None:
        Array(self.address)[at] = value.address


class Cells(AddressTable):
    """A table of addresses of words, which an element access reads and writes."""

    element, through_cells = int, True

    def __getitem__(self, at: int) -> int:
        return Array(Array(self.address)[at])[0]

    def __setitem__(self, at: int, value: int) -> None:
        Array(Array(self.address)[at])[0] = value


class Vectors(AddressTable):
    """A table of addresses of cells, each of which holds the address of an array."""

    through_cells = True

    def __getitem__(self, at: int) -> Array:
        return Array(Array(Array(self.address)[at])[0])


Cell = Annotated[int, CELL]
Vector = Annotated[Array, CELL]
Vector32 = Annotated[Array32, CELL]
Vector8 = Annotated[Array8, CELL]
Int32 = Annotated[int, HALF]
Inline = Annotated[Array, INLINE]


def vector_at(cell: int) -> Array:
    """Return the array whose address a cell holds."""
    return Array(Array(cell)[0])


register_jitable(vector_at)

for _kind in (Array, Array32, Array8, Arrays, Cells, Vectors):
    declare(_kind)


class BlockField:
    """A field of a block: its offset in bytes, the type of its value, and the way to it."""

    def __init__(self, name: str, offset: int, hint: object) -> None:
        self.name, self.offset = name, offset
        self.kind, access = get_args(hint) if get_origin(hint) is Annotated else (hint, "")
        self.through_cell, self.inline = access == CELL, access == INLINE
        self.bits = 32 if access == HALF else 64

    @property
    def size(self) -> int:
        return 0 if self.inline else self.bits // 8

    @overload
    def __get__(self, block: None, _owner: type[Block]) -> Self: ...
    @overload
    def __get__(self, block: Block, _owner: type[Block]) -> Any: ...
    def __get__(self, block: Block | None, _owner: type[Block]) -> Any:
        if block is None:
            return self
        if self.inline:
            return Array(block.address + self.offset)
        word = self._word(block)[0]
        return word if self.kind is int else self.kind(word)

    def __set__(self, block: Block, value: Any) -> None:
        self._word(block)[0] = value if self.kind is int else value.address

    def _word(self, block: Block) -> Array:
        word = (Array32 if self.bits == 32 else Array)(block.address + self.offset)
        return Array(word[0]) if self.through_cell else word


class Block:
    """A structure in memory, whose fields are the annotations of its class: see the module."""

    layout: ClassVar[str] = "block"
    fields: ClassVar[dict[str, BlockField]] = {}
    defaults: ClassVar[dict[str, int]] = {}
    size_in_words: ClassVar[int] = 0
    _structure: ClassVar[type[ctypes.Structure]] = ctypes.Structure

    def __init__(self, address: int) -> None:
        self.address = address

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        hints = get_type_hints(cls, include_extras=True)
        own = [name for name, hint in cls.__annotations__.items() if not str(hint).startswith("ClassVar")]
        cls.defaults = cls.defaults | {name: cls.__dict__[name] for name in own if name in cls.__dict__}
        cls.fields, offset = dict(cls.fields), 0
        for name in [*cls.fields, *own]:
            cls.fields[name] = BlockField(name, offset, hints[name])
            setattr(cls, name, cls.fields[name])
            offset += cls.fields[name].size
        cls.size_in_words = -(-offset // 8)
        layout = [(field.name, ctypes.c_int32 if field.bits == 32 else ctypes.c_int64) for field in cls._stored()]
        cls._structure = type(cls.__name__, (ctypes.Structure,), {"_fields_": layout})
        declare(cls)

    @classmethod
    def _stored(cls) -> list[BlockField]:
        return [field for field in cls.fields.values() if not field.inline]

    @property
    def as_words(self) -> ctypes.Structure:
        """The words by name: of cells and arrays the addresses, not the content.

        Python reads and writes them faster than the fields.
        """
        check_view(self.address, 8 * self.size_in_words)
        return self._structure.from_address(self.address)

    @classmethod
    def words(cls, **values: int) -> list[int]:
        """Return the words of a new block; fields without a default must be given."""
        known = {name for name, field in cls.fields.items() if not field.inline}
        given = cls.defaults | values
        if given.keys() != known:
            raise TypeError(f"{cls.__name__}: unknown or missing fields: {', '.join(sorted(given.keys() ^ known))}")
        content = bytearray(8 * cls.size_in_words)
        for name, value in given.items():
            field = cls.fields[name]
            content[field.offset : field.offset + field.size] = int(value).to_bytes(field.size, "little", signed=True)
        return list(memoryview(content).cast("q"))


class Operator(Block):
    """A block that the interpreter runs; its first word is its opcode."""

    opcode: int


class SizedOperator(Operator):
    """An operator that does nothing if its input has no rows."""

    size: Cell
