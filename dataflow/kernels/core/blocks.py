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

The numba types of arrays, tables and blocks: how kernels load and store what `blocks` declares.

A value of such a type is an address. An access to an element or a field compiles to the loads and stores that it stands
for, each of which checked kernels verify.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Self, TypeAlias, get_args, get_origin, get_type_hints, overload

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.cpu import CPUContext
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.typing.context import BaseContext
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    Signature,
    infer_getattr,
    infer_global,
    signature,
)
from numba.extending import (
    NativeValue,
    lower_builtin,
    models,
    register_jitable,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)

from deltamark.dataflow.kernels.core.dispatcher import WORD
from deltamark.dataflow.kernels.core.guard import check_view, guard

# mypy: allow-untyped-calls, allow-untyped-decorators


Values = Sequence[ir.Value]

Element: TypeAlias = ctypes.c_int64 | ctypes.c_int32 | ctypes.c_int16 | ctypes.c_int8 | ctypes.c_uint8
"""An element of an array in Python."""


class AddressType(types.Type):
    """The type of an address, and the Python class of the memory at it."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        super().__init__(name=f"{cls.__module__}.{cls.__qualname__}")


class ArrayType(AddressType):
    """An array of integers of `cls.bits` bits."""


class TableType(AddressType):
    """A table of addresses of `cls.element`, which are cells if `cls.through_cells` is set."""


class BlockType(AddressType):
    """A block with the fields of `cls`."""


@register_model(ArrayType)
@register_model(TableType)
@register_model(BlockType)
class _AddressModel(models.PrimitiveModel):
    def __init__(self, manager: object, kind: AddressType) -> None:
        super().__init__(manager, kind, WORD)


def kernel_type(cls: Any) -> types.Type:
    """Return the type that kernels see for a class."""
    if cls is int:
        return types.int64
    kinds = {"array": ArrayType, "table": TableType, "block": BlockType}
    return kinds[cls.layout](cls)


def declare(cls: Any) -> None:
    """Let kernels call a class with an address, and take its instances as arguments."""

    @type_callable(cls)
    def _type(_context: BaseContext) -> Callable[[types.Type], types.Type | None]:
        def typer(address: types.Type) -> types.Type | None:
            return kernel_type(cls) if isinstance(address, types.Integer | AddressType) else None

        return typer

    @lower_builtin(cls, types.Integer)
    @lower_builtin(cls, AddressType)
    def _lower(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        kind = sig.args[0]
        return args[0] if isinstance(kind, AddressType) else context.cast(builder, args[0], kind, types.int64)

    @typeof_impl.register(cls)
    def _typeof(_value: object, _context: object) -> types.Type:
        return kernel_type(cls)


@unbox(ArrayType)
@unbox(TableType)
@unbox(BlockType)
def _unbox(_kind: AddressType, value: ir.Value, context: Any) -> NativeValue:
    address = context.pyapi.object_getattr_string(value, "address")
    word = context.pyapi.long_as_longlong(address)
    context.pyapi.decref(address)
    return NativeValue(word, is_error=cgutils.is_not_null(context.builder, context.pyapi.err_occurred()))


def _load(
    context: CPUContext, builder: ir.IRBuilder, base: ir.Value, index: ir.Value, bits: int = 64, *, signed: bool = True
) -> ir.Value:
    guard(context, builder, base, index, bits // 8)
    pointer = builder.inttoptr(base, ir.IntType(bits).as_pointer())
    value = builder.load(builder.gep(pointer, [index]))
    if bits == 64:
        return value
    return builder.sext(value, WORD) if signed else builder.zext(value, WORD)


def _store(
    context: CPUContext, builder: ir.IRBuilder, base: ir.Value, index: ir.Value, value: ir.Value, bits: int = 64
) -> None:
    guard(context, builder, base, index, bits // 8)
    pointer = builder.inttoptr(base, ir.IntType(bits).as_pointer())
    builder.store(value if bits == 64 else builder.trunc(value, ir.IntType(bits)), builder.gep(pointer, [index]))


@infer_getattr
class _Attributes(AttributeTemplate):
    key = AddressType

    def generic_resolve(self, kind: AddressType, name: str) -> types.Type | None:  # type: ignore[override]
        if name == "address":
            return types.int64
        if isinstance(kind, BlockType) and name in kind.cls.fields:
            return kernel_type(kind.cls.fields[name].kind)
        return None


def _place(context: CPUContext, builder: ir.IRBuilder, field: Any, base: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the base and the index of the number that a field refers to."""
    index = WORD(8 * field.offset // field.bits)
    return (_load(context, builder, base, index), WORD(0)) if field.through_cell else (base, index)


@lower_getattr_generic(ArrayType)
@lower_getattr_generic(TableType)
@lower_getattr_generic(BlockType)
def _get_attribute(
    context: CPUContext, builder: ir.IRBuilder, kind: AddressType, base: ir.Value, name: str
) -> ir.Value:
    if name == "address":
        return base
    field = kind.cls.fields[name]
    if field.inline:
        return builder.add(base, WORD(field.offset))
    return _load(context, builder, *_place(context, builder, field, base), field.bits)


@lower_setattr_generic(BlockType)
def _set_attribute(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values, name: str) -> None:
    field = sig.args[0].cls.fields[name]
    base, index = _place(context, builder, field, args[0])
    _store(context, builder, base, index, args[1], field.bits)


def _element_type(kind: AddressType) -> types.Type:
    return kernel_type(kind.cls.element) if isinstance(kind, TableType) else types.int64


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Sequence[types.Type], _keywords: object) -> Signature | None:
        base, index = args
        if not isinstance(base, ArrayType | TableType):
            return None
        if isinstance(index, types.SliceType):
            return signature(base, base, types.slice2_type)
        return signature(_element_type(base), base, types.int64)


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Sequence[types.Type], _keywords: object) -> Signature | None:
        base = args[0]
        if not isinstance(base, ArrayType | TableType):
            return None
        return signature(types.none, base, types.int64, _element_type(base))


@lower_builtin(operator.getitem, ArrayType, types.Integer)
def _get_item(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    base, index = args
    cls = sig.args[0].cls
    return _load(context, builder, base, index, cls.bits, signed=cls.is_signed)


@lower_builtin(operator.getitem, TableType, types.Integer)
def _get_from_table(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    base, index = args
    word = _load(context, builder, base, index)
    return _load(context, builder, word, WORD(0)) if sig.args[0].cls.through_cells else word


@lower_builtin(operator.setitem, ArrayType, types.Integer, types.Integer)
def _set_item(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    base, index, value = args
    _store(context, builder, base, index, value, sig.args[0].cls.bits)
    return context.get_dummy_value()


@lower_builtin(operator.setitem, TableType, types.Integer, types.Any)
def _set_in_table(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    base, index, value = args
    if sig.args[0].cls.through_cells:
        base, index = _load(context, builder, base, index), WORD(0)
    _store(context, builder, base, index, value)
    return context.get_dummy_value()


@lower_builtin(operator.getitem, ArrayType, types.slice2_type)
def _from(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
    start = context.make_helper(builder, types.slice2_type, args[1]).start
    return builder.add(args[0], builder.mul(start, WORD(sig.args[0].cls.bits // 8)))


NONE: Any = 0
"""The default of a field that holds no address yet."""
CELL, HALF, INLINE = "cell", "half", "inline"
"""Kinds of fields: behind a cell, in half a word, or the words behind the block."""


class Array:
    """An array of int64 at an address."""

    layout: ClassVar[str] = "array"
    bits: ClassVar[int] = 64
    is_signed: ClassVar[bool] = True
    _element: ClassVar[type[Element]] = ctypes.c_int64

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

    def _at(self, at: int) -> Element:
        size = self.bits // 8
        check_view(self.address + size * at, size)
        return self._element.from_address(self.address + size * at)


class Array32(Array):
    """An array of int32 at an address."""

    bits, _element = 32, ctypes.c_int32


class Array16(Array):
    """An array of int16 at an address."""

    bits, _element = 16, ctypes.c_int16


class Signed8(Array):
    """An array of int8 at an address."""

    bits, _element = 8, ctypes.c_int8


class Array8(Array):
    """Bytes at an address: numbers without a sign."""

    bits, is_signed, _element = 8, False, ctypes.c_uint8


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

for _kind in (Array, Array32, Array16, Signed8, Array8, Arrays, Cells, Vectors):
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
    """A block that the interpreter runs."""


class SizedOperator(Operator):
    """An operator that does nothing if its input has no rows."""

    size: Cell
