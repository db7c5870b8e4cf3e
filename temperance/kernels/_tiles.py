"""Small products of matrices for Numba kernels, with their sums in vector registers.

A kernel that computes one factor of a product in the cache cannot use a library's product, which would copy the factor
and start threads. Import this module only from a kernel: it imports Numba.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

_I64 = ir.IntType(64)
TALL, WIDE = 4, 3  # a tile is TALL × WIDE vectors: with the factors they fill sixteen registers


def _vector_bytes() -> int:
    """The vector width of this machine in bytes; 0 without fused multiply-add."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 64
    if features.get("avx2") and features.get("fma"):
        return 32
    return 16 if platform.machine().lower() in ("aarch64", "arm64") else 0


VECTOR_BYTES = _vector_bytes()


def lanes(itemsize: int) -> int:
    """How many numbers of `itemsize` bytes a vector register holds."""
    return VECTOR_BYTES // itemsize


@intrinsic
def add_outer(
    context: Any, w: Any, w_at: Any, f: Any, f_at: Any, out: Any, out_at: Any, stride: Any, depth: Any
) -> Any:
    """out[out_at + a·stride + b] += Σ_p w[w_at + p·TALL + a] f[f_at + p·width + b] for a < TALL and b < width, which is
    WIDE vectors; sums over p are in the precision of w and f, `out` is in double precision."""

    def generate(context: Any, builder: ir.IRBuilder, _: Any, given: Any) -> Any:
        vector, fma = _vector(w), _fma(builder, _vector(w))
        first = _pointer(context, builder, w, given[0], given[1])
        second = _pointer(context, builder, f, given[2], given[3])
        target = _pointer(context, builder, out, given[4], given[5])

        def body(p: Any, sums: list[Any]) -> list[Any]:
            at = builder.mul(p, _I64(WIDE * vector.count))
            right = [_load(builder, second, builder.add(at, _I64(b * vector.count)), vector) for b in range(WIDE)]
            at, fresh = builder.mul(p, _I64(TALL)), []
            for a in range(TALL):
                # One vector at a time, because all of them together would push the sums out of the registers.
                left = _splat(builder, builder.load(builder.gep(first, [builder.add(at, _I64(a))])), vector)
                fresh += [fma(left, right[b], sums[a * WIDE + b]) for b in range(WIDE)]
            return fresh

        wide = ir.VectorType(ir.DoubleType(), vector.count)
        for number, total in enumerate(_loop(builder, given[7], 1, vector, TALL * WIDE, body)):
            a, b = divmod(number, WIDE)
            at = builder.gep(target, [builder.add(builder.mul(given[6], _I64(a)), _I64(b * vector.count))])
            at = builder.bitcast(at, wide.as_pointer())
            value = total if vector == wide else builder.fpext(total, wide)
            builder.store(builder.fadd(builder.load(at, align=8), value), at, align=8)
        return context.get_dummy_value()

    number = types.int64
    return types.void(w, number, f, number, out, number, number, number), generate


@intrinsic
def add_inner(
    context: Any, r: Any, r_at: Any, r_step: Any, f: Any, f_at: Any, f_step: Any,
    out: Any, out_at: Any, stride: Any, n: Any,
) -> Any:  # fmt: skip
    """out[out_at + a·stride + b] += Σ_p r[r_at + a·r_step + p] f[f_at + b·f_step + p] for a < TALL, b < WIDE and
    p < n, a multiple of the lanes."""

    def generate(context: Any, builder: ir.IRBuilder, _: Any, given: Any) -> Any:
        vector, fma = _vector(r), _fma(builder, _vector(r))
        first = _pointer(context, builder, r, given[0], given[1])
        second = _pointer(context, builder, f, given[3], given[4])
        target = _pointer(context, builder, out, given[6], given[7])
        rows = [builder.gep(first, [builder.mul(given[2], _I64(a))]) for a in range(TALL)]
        columns = [builder.gep(second, [builder.mul(given[5], _I64(b))]) for b in range(WIDE)]

        def body(p: Any, sums: list[Any]) -> list[Any]:
            right = [_load(builder, column, p, vector) for column in columns]
            fresh = []
            for a in range(TALL):
                left = _load(builder, rows[a], p, vector)
                fresh += [fma(left, right[b], sums[a * WIDE + b]) for b in range(WIDE)]
            return fresh

        element = vector.element
        reduce = _declared(builder, f"llvm.vector.reduce.fadd.{_name(vector)}", element, [element, vector])
        for number, total in enumerate(_loop(builder, given[9], vector.count, vector, TALL * WIDE, body)):
            a, b = divmod(number, WIDE)
            value = builder.call(reduce, [ir.Constant(element, 0.0), total], fastmath=("reassoc",))
            if element != ir.DoubleType():
                value = builder.fpext(value, ir.DoubleType())
            at = builder.gep(target, [builder.add(builder.mul(given[8], _I64(a)), _I64(b))])
            builder.store(builder.fadd(builder.load(at), value), at)
        return context.get_dummy_value()

    number = types.int64
    return types.void(r, number, number, f, number, number, out, number, number, number), generate


@intrinsic
def multiply(context: Any, x: Any, i: Any, j: Any, out: Any, out_at: Any, n: Any) -> Any:
    """out[out_at + p] = x[i + p] x[j + p] for p < n, a multiple of the lanes."""

    def generate(context: Any, builder: ir.IRBuilder, _: Any, given: Any) -> Any:
        vector = _vector(x)
        left, right = (_pointer(context, builder, x, given[0], at) for at in given[1:3])
        target = _pointer(context, builder, out, given[3], given[4])

        def body(p: Any, _: list[Any]) -> list[Any]:
            product = builder.fmul(_load(builder, left, p, vector), _load(builder, right, p, vector))
            at = builder.bitcast(builder.gep(target, [p]), vector.as_pointer())
            builder.store(product, at, align=_itemsize(vector))
            return []

        _loop(builder, given[5], vector.count, vector, 0, body)
        return context.get_dummy_value()

    number = types.int64
    return types.void(x, number, number, out, number, number), generate


# ---- the compiler's language ---------------------------------------------------------------------------------------


def _vector(array: types.Array) -> ir.VectorType:
    double = array.dtype == types.float64
    return ir.VectorType(ir.DoubleType() if double else ir.FloatType(), lanes(8 if double else 4))


def _itemsize(vector: ir.VectorType) -> int:
    return 8 if vector.element == ir.DoubleType() else 4


def _name(vector: ir.VectorType) -> str:
    return f"v{vector.count}f{8 * _itemsize(vector)}"


def _pointer(context: Any, builder: ir.IRBuilder, array: types.Array, value: Any, at: Any) -> Any:
    return builder.gep(context.make_array(array)(context, builder, value).data, [at])


def _load(builder: ir.IRBuilder, pointer: Any, at: Any, vector: ir.VectorType) -> Any:
    place = builder.bitcast(builder.gep(pointer, [at]), vector.as_pointer())
    return builder.load(place, align=_itemsize(vector))


def _splat(builder: ir.IRBuilder, value: Any, vector: ir.VectorType) -> Any:
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, nothing, mask)


def _declared(builder: ir.IRBuilder, name: str, result: Any, arguments: list[Any]) -> Any:
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def _fma(builder: ir.IRBuilder, vector: ir.VectorType) -> Callable[[Any, Any, Any], Any]:
    function = _declared(builder, f"llvm.fma.{_name(vector)}", vector, [vector] * 3)
    return lambda a, b, c: builder.call(function, [a, b, c])


def _loop(
    builder: ir.IRBuilder, n: Any, step: int, vector: ir.VectorType, sums: int,
    body: Callable[[Any, list[Any]], list[Any]],
) -> list[Any]:  # fmt: skip
    """Apply `body(p, sums) → sums` for p = 0, step, … below n (at least 1), starting from sums of zero."""
    before = builder.block
    inside, after = builder.append_basic_block("tile"), builder.append_basic_block("tiled")
    builder.branch(inside)
    builder.position_at_end(inside)
    p = builder.phi(_I64)
    carried = [builder.phi(vector) for _ in range(sums)]
    fresh = body(p, carried)
    following = builder.add(p, _I64(step))
    p.add_incoming(_I64(0), before)
    p.add_incoming(following, builder.block)
    for old, new in zip(carried, fresh, strict=True):
        old.add_incoming(ir.Constant(vector, [0.0] * vector.count), before)
        old.add_incoming(new, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, n), inside, after)
    builder.position_at_end(after)
    return fresh
