"""The numba types of arrays, tables and blocks: how kernels load and store what `blocks` declares.

A value of such a type is an address. An access to an element or a field compiles to the loads and stores that it stands
for, each of which checked kernels verify.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

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
from numba.extending import NativeValue, lower_builtin, models, register_model, type_callable, typeof_impl, unbox

from deltamark.dataflow.kernels.core.dispatcher import WORD
from deltamark.dataflow.kernels.core.guard import guard

Values = Sequence[ir.Value]


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


def _load(context: CPUContext, builder: ir.IRBuilder, base: ir.Value, index: ir.Value, bits: int = 64) -> ir.Value:
    guard(context, builder, base, index, bits // 8)
    pointer = builder.inttoptr(base, ir.IntType(bits).as_pointer())
    value = builder.load(builder.gep(pointer, [index]))
    if bits == 64:
        return value
    return builder.zext(value, WORD) if bits == 8 else builder.sext(value, WORD)


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
    return _load(context, builder, base, index, sig.args[0].cls.bits)


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
