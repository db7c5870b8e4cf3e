"""From a function of pytrees to an executable, and from there to bytes and back."""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import logging
import math
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._heap import give_back
from .._uncollected import uncollected
from .jax_versions import OLDER_EMITTERS, PRESET, stop_listening, unwritten
from .one_call import NAME

# Fewer passes of the compiler: several times faster to compile, up to six times slower to run.
CHEAP: Mapping[str, Any] = {
    **OLDER_EMITTERS,
    **PRESET,
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,  # 32 unless told, and each part costs as much as a small program
}
# A little slower to compile than with these options, and with small arrays as fast as fully optimised code.
MIDDLING: Mapping[str, Any] = {**CHEAP, "xla_backend_optimization_level": 1}
# Numbers read and written in one call, from which the next level of optimisation pays even in a first run.
LONG, VERY_LONG = 2**27, 2**34
FEW = 128  # numbers: an operation on fewer takes equally long at any level of optimisation
INSIDE = 8  # numbers inside `one_call` that count as one, because entering it costs nothing
PASSES, INNER_PASSES = 64, 4  # assumed for a loop of unknown length: over steps, or within one (Newton)
_PICKLING = threading.Lock()
_REJECTED: set[str] = set()  # options that this version of JAX does not know
_CALLS = re.compile(r'custom_call\s*@"?([\w.$]+)|call_target_name\s*=\s*"([^"]+)"')


@dataclasses.dataclass(frozen=True)
class Traced:
    """Marks the place of an array among the leaves of a tree; for random keys it holds the name of their generator."""

    generator: str | None = None


@dataclasses.dataclass(frozen=True)
class Promised:
    """The abstract value of an array that does not exist yet."""

    aval: Any


# The function to be called with the result of the next traced function, with `Promised` in place of arrays.
_AWAITED: ContextVar[Callable[[Any], None] | None] = ContextVar("awaited", default=None)


@contextlib.contextmanager
def awaiting(call: Callable[[Any], None] | None) -> Iterator[None]:
    """Call `call`, if any, as soon as the shapes of what a new program returns are known, before it is compiled."""
    token = _AWAITED.set(call)
    try:
        yield
    finally:
        _AWAITED.reset(token)


class Executable:
    """A compiled function of the arrays among its arguments."""

    def __init__(self, compiled: Any, avals: Sequence[Any], result: Any, targets: frozenset[str], origin: str):
        self.compiled = compiled
        self.avals = avals  # abstract values of the returned arrays
        self.result = result  # the returned tree, `Traced` in place of arrays
        self.targets = targets  # names of the functions outside XLA that it calls
        self.origin = origin  # "compiled", "JAX" (from its cache) or "disk" (from ours, and not yet run)
        self.leaves, self.tree = jax.tree.flatten(result)

    @property
    def calls_python(self) -> bool:
        return any("callback" in target for target in self.targets)

    def __call__(self, arrays: Sequence[Any]) -> Any:
        if self.calls_python:
            with _Quiet():
                found = jax.block_until_ready(self.compiled(*arrays))
        else:
            found = self.compiled(*arrays)
        values = iter(found)
        filled = [wrap(next(values), leaf) if isinstance(leaf, Traced) else leaf for leaf in self.leaves]
        return jax.tree.unflatten(self.tree, filled)


class _Quiet:
    """Suppresses the log line of a callback that raises, because the error itself reaches the caller (as in
    Equinox)."""

    def __enter__(self) -> None:
        logging.getLogger("jax._src.callback").addFilter(self)

    def __exit__(self, *_: object) -> None:
        logging.getLogger("jax._src.callback").removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        return record.getMessage() != "jax.pure_callback failed"


def unwrap(array: Any) -> tuple[Any, Traced]:
    """The integers of random keys, which an executable takes, or another array as it is; and its `Traced`."""
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(array), Traced(str(jax.random.key_impl(array)))
    return array, Traced()


def wrap(array: Any, place: Traced) -> Any:
    return array if place.generator is None else jax.random.wrap_key_data(array, impl=place.generator)


def build(
    fun: Callable[..., Any],
    arrays: Sequence[Any],
    leaves: Sequence[Any],
    tree: Any,
    cheap: bool | None,
    to_keep: bool = False,
) -> Executable:
    """Trace, lower and compile `fun`; each of the `leaves` of its arguments is static, or `Traced` with its array in
    `arrays`.

    If `cheap` is None, compilation is cheap unless the function does much work. An executable `to_keep` is not written
    to JAX's own cache, because XLA cannot serialise an executable that it has read from there.
    """
    results: list[Any] = []

    def flat(*arrays: Any) -> list[Any]:
        values = iter(arrays)
        given = [wrap(next(values), leaf) if isinstance(leaf, Traced) else leaf for leaf in leaves]
        args, kwargs = jax.tree.unflatten(tree, given)
        found, structure = jax.tree.flatten(fun(*args, **kwargs))
        pairs = [unwrap(leaf) if eqx.is_array(leaf) else (None, leaf) for leaf in found]
        results.append(jax.tree.unflatten(structure, [place for _, place in pairs]))
        return [array for array, place in pairs if isinstance(place, Traced)]

    flat.__name__, flat.__qualname__ = fun.__name__, fun.__qualname__
    with uncollected(), _Watch() as watch, unwritten() if to_keep else contextlib.nullcontext():
        traced = jax.jit(flat).trace(*(array.aval if isinstance(array, Promised) else array for array in arrays))
        options = options_for(traced.jaxpr, cheap)
        lowered = traced.lower()
        targets = frozenset(first or second for first, second in _CALLS.findall(lowered.as_text()))
        _forget_sources(lowered)
        _announce(traced.jaxpr.out_avals, results[-1])  # from here on this thread leaves Python to other threads
        compiled = _compile(lowered, options)
    give_back()  # memory that the compiler has freed: 60 MB after the programs of a small fit
    return Executable(compiled, traced.jaxpr.out_avals, results[-1], targets, "JAX" if watch.hit else "compiled")


def _forget_sources(lowered: Any) -> None:
    """Remove the source location of every operation: a sixth of a kept file and of the time to read it. Some versions
    of JAX cannot remove it."""
    with contextlib.suppress(Exception):
        from jaxlib.mlir.passmanager import PassManager

        module = lowered.compiler_ir("stablehlo")
        with module.context:
            PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)


def _announce(avals: Sequence[Any], result: Any) -> None:
    call = _AWAITED.get()
    if call is not None:
        values, (leaves, tree) = iter(avals), jax.tree.flatten(result)
        if all(leaf.generator is None for leaf in leaves if isinstance(leaf, Traced)):
            filled = [Promised(next(values)) if isinstance(leaf, Traced) else leaf for leaf in leaves]
            call(jax.tree.unflatten(tree, filled))


def options_for(jaxpr: Any, cheap: bool | None) -> Mapping[str, Any]:
    """The compiler's options: few passes if that is `cheap`, or (None) where the function does not work for long."""
    amount = work(jaxpr) if cheap is None else 0 if cheap else VERY_LONG
    if amount >= VERY_LONG:
        return {}
    return CHEAP if amount < LONG else MIDDLING


def work(jaxpr: Any, passes: int = PASSES, few: int = FEW) -> int:
    """The numbers that operations on `few` or more read and write, with `passes` through loops of unknown length."""
    total = 0
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        loops = equation.primitive.name == "while"
        within = INNER_PASSES if loops else passes
        least = 0 if equation.params.get("name") == NAME else few
        inner = [work(part, within, least) for value in equation.params.values() for part in _functions(value)]
        own = sum(_size(atom.aval) for atom in [*equation.invars, *equation.outvars])
        if inner and equation.params.get("name") == NAME:
            inner = [sum(inner) // INSIDE]
        times = passes if loops else equation.params.get("length", 1)
        total += times * sum(inner) if inner else own if own >= few else 0
    return total


def _functions(value: Any) -> list[Any]:
    values = value if isinstance(value, tuple | list) else [value]
    return [part for part in values if hasattr(getattr(part, "jaxpr", part), "eqns")]


def _size(aval: Any) -> int:
    return math.prod(getattr(aval, "shape", ()))


class _Watch:
    """Watches whether JAX took the program that this thread compiles from its own cache."""

    def __enter__(self) -> _Watch:
        self.hit, self.thread = False, threading.get_ident()
        jax.monitoring.register_event_listener(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        stop_listening(self._listen)

    def _listen(self, event: str, **_: Any) -> None:
        if event == "/jax/compilation_cache/cache_hits" and threading.get_ident() == self.thread:
            self.hit = True


def _compile(lowered: Any, options: Mapping[str, Any]) -> Any:
    """Compile with those of the options that this version of JAX knows."""
    while True:
        options = {name: value for name, value in options.items() if name not in _REJECTED}
        try:
            return lowered.compile(compiler_options=options or None)
        except Exception as error:
            unknown = {name for name in options if name in str(error)}
            if not unknown:
                raise
            _REJECTED.update(unknown)


def pack(executable: Executable) -> bytes | None:
    """The executable as bytes, or None if another process could not use it."""
    from jax.experimental.serialize_executable import serialize

    if executable.origin != "compiled" or not all(target.startswith("lapack_") for target in executable.targets):
        return None
    try:
        with _interned():
            payload, structure, _ = serialize(executable.compiled)
        result = pickle.dumps(executable.result)
        leaves, tree = jax.tree.flatten(pickle.loads(result))
    except Exception:  # objects that cannot be pickled raise many kinds of errors
        return None
    if (leaves, tree) != (executable.leaves, executable.tree):  # a static part equals only itself, not its copy
        return None
    avals = [(aval.shape, str(aval.dtype), aval.weak_type) for aval in executable.avals]
    return pickle.dumps((payload, structure.num_leaves, avals, result, executable.targets))


@contextlib.contextmanager
def _interned() -> Iterator[None]:
    """Pickle abstract values as calls of their constructor. JAX 0.11 compares them by identity but pickles their
    fields, so values from another process would equal no others, and every cache would take each result of such an
    executable for a new shape."""
    kind = jax.core.ShapedArray
    with _PICKLING:
        before = copyreg.dispatch_table.get(kind)
        copyreg.pickle(kind, _as_call)
        try:
            yield
        finally:
            del copyreg.dispatch_table[kind]
            if before is not None:
                copyreg.dispatch_table[kind] = before


def _as_call(aval: Any) -> Any:
    sharding = getattr(aval, "sharding", None)
    if sharding is not None and not sharding.mesh.empty:
        return aval.__reduce_ex__(2)
    return jax.core.ShapedArray, (aval.shape, aval.dtype, aval.weak_type)


def unpack(content: bytes) -> Executable:
    """The executable from bytes that `pack` wrote on a machine of the same kind."""
    from jax.experimental.serialize_executable import deserialize_and_load

    payload, count, shapes, result, targets = pickle.loads(content)
    avals = [jax.core.ShapedArray(shape, np.dtype(kind), weak) for shape, kind, weak in shapes]
    returned = pickle.loads(result)
    _announce(avals, returned)  # callers can load the next programs meanwhile
    if targets:
        from jaxlib import lapack

        lapack.prepare_lapack_call("potrf_ffi", np.dtype("float64"))  # else its functions would be null pointers
    compiled = deserialize_and_load(
        payload,
        jax.tree.structure((tuple(range(count)), {})),
        jax.tree.structure(list(range(len(avals)))),
        execution_devices=jax.local_devices()[:1],
    )
    return Executable(compiled, avals, returned, targets, "disk")
