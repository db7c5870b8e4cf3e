"""`program`: `eqx.filter_jit` whose executables are cheap to compile for small work, few in memory, and kept on
disk."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar, copy_context
from typing import Any, NamedTuple, overload

import equinox as eqx
import jax

from . import store
from .compilation import Executable, Promised, Traced, awaiting, build, pack, unpack, unwrap
from .environment import describe_context, describe_process
from .fork import refuse_after_fork
from .identity import NoIdentity, describe, name_of
from .jax_versions import context
from .room import another, make_room

SMALL = 2**16  # numbers in all array arguments together: below it compilation takes longer than the run
CAPACITY = 128  # executables in memory; each holds some 160 of the 65,530 memory maps that Linux allows a process

_EXECUTABLES: OrderedDict[Hashable, Executable] = OrderedDict()  # the least recently used first
_COMPILING: dict[Hashable, threading.Lock] = {}
_LOCK = threading.Lock()
_EFFORT: ContextVar[bool | None] = ContextVar("effort", default=None)


@contextlib.contextmanager
def optimise(fully: bool) -> Iterator[None]:
    """Compile the programs called inside with full optimisation, or with little of it, whatever their size.

    Both levels give equal numbers up to rounding, not equal bits: decide once for a run, from its arguments alone.
    """
    token = _EFFORT.set(fully)
    try:
        yield
    finally:
        _EFFORT.reset(token)


class _Call(NamedTuple):
    """The arguments of a call, taken apart."""

    value: Any  # (args, kwargs)
    traced: list[Any]  # the leaves that are arrays
    arrays: list[Any]  # `traced`, with random keys as integers
    leaves: tuple[Any, ...]  # static leaves, and `Traced` for arrays
    tree: Any
    shapes: tuple[Any, ...]
    places: tuple[Any, ...]  # the sharding of each committed array, None for an array that may be moved


class Program:
    """A compiled function; called like one made by `eqx.filter_jit`."""

    def __init__(self, fun: Callable[..., Any], small: int | Callable[..., bool] = SMALL):
        self.fun, self.small = fun, small
        self.plain = eqx.filter_jit(fun)
        self.signature = inspect.signature(fun)
        functools.update_wrapper(self, fun)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        ready()
        bound = self.signature.bind(*args, **kwargs)
        call = _take_apart((bound.args, bound.kwargs))
        if call is None or getattr(jax.config, "jax_disable_jit", False):
            return self.plain(*args, **kwargs)
        key, cheap = self._key(call)
        try:
            hash(key)
        except TypeError:  # Equinox's message is clearer
            return self.plain(*args, **kwargs)
        found = _find(key, lambda: self._make(call, cheap))
        if found.origin != "disk":
            return found(call.arrays)
        try:
            result = jax.block_until_ready(found(call.arrays))
            found.origin = "proven"
            return result
        except Exception:  # loaded, but cannot run: compile it anew
            _forget(key, found)
            return _find(key, lambda: self._make(call, cheap, anew=True))(call.arrays)

    def ahead(self, /, *args: Any) -> None:
        """Make the executable of this call in another thread, with some of its arrays still `Promised`. A call of the
        function waits for this executable; an error in this thread is raised again by that call."""
        call = _take_apart((self.signature.bind(*args).args, {}))
        if call is None or any(place is not None for place in call.places):
            return
        key, cheap = self._key(call)

        def make() -> None:
            with contextlib.suppress(Exception), awaiting(None):
                _find(key, lambda: self._make(call, cheap))

        threading.Thread(target=copy_context().run, args=(make,), name=f"compile {self.fun.__name__}").start()

    def _key(self, call: _Call) -> tuple[Hashable, bool | None]:
        """The key of the executable for a call, and whether its compilation is cheap."""
        cheap = self._cheap(call)
        types = tuple(type(leaf) for leaf in call.leaves)  # 1, 1.0 and True are equal
        return (self.fun, call.leaves, types, call.tree, call.shapes, call.places, cheap, context()), cheap

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _cheap(self, call: _Call) -> bool | None:
        """Whether to compile with few optimisations; None if that depends on the work in the function."""
        if any(platform != "cpu" for platform in _platforms(call)):
            return False
        effort = _EFFORT.get()
        if effort is not None:
            return not effort
        if callable(self.small):
            return self.small(*call.value[0], **call.value[1])
        return None if sum(shape.size for shape in call.shapes) < self.small else False

    def _make(self, call: _Call, cheap: bool | None, anew: bool = False) -> Executable:
        """The executable from the disk (unless `anew`), or a new one that is kept there if it can be."""
        name = self.fun.__name__.strip("_<>")
        digest = self._digest(call, cheap)
        kept = None if digest is None or anew else store.read(name, digest)
        if digest is not None and kept is not None:
            try:
                another()
                return unpack(kept)
            except Exception:  # from a version of XLA that names itself alike, or a class that has moved
                store.discard(name, digest)
        made = build(self.fun, call.arrays, call.leaves, call.tree, cheap, digest is not None)
        content = None if digest is None else pack(made)
        if digest is not None and content is not None:
            store.write(name, digest, content)
        return made

    def _digest(self, call: _Call, cheap: bool | None) -> str | None:
        """The name of the executable on disk, or None where it cannot be kept: for another device than the CPU, for
        several devices, or if another process cannot verify the code of the function or its static arguments."""
        if any(place is not None for place in call.places) or jax.default_backend() != "cpu" or store.folder() is None:
            return None
        try:
            function = name_of(self.fun)
            described = describe(call.value, call.traced)
            shapes = [
                f"{shape.str_short()} {shape.weak_type} {leaf}" for shape, leaf in zip(*_dynamic(call), strict=True)
            ]
            parts = [describe_process(), describe_context(context()), function, repr(cheap), described]
        except NoIdentity:
            return None
        return hashlib.sha256("\n".join([*parts, *shapes]).encode()).hexdigest()


def _dynamic(call: _Call) -> tuple[tuple[Any, ...], list[Traced]]:
    return call.shapes, [leaf for leaf in call.leaves if isinstance(leaf, Traced)]


def _platforms(call: _Call) -> set[str]:
    placed = {device.platform for place in call.places if place is not None for device in place.device_set}
    return placed or {jax.default_backend()}


def _take_apart(value: Any) -> _Call | None:
    """The arguments taken apart; None if an array is being traced or is not valid for JAX (an array of objects,
    say)."""
    found, tree = jax.tree.flatten(value)
    traced = [leaf for leaf in found if _varies(leaf)]
    if any(isinstance(leaf, jax.core.Tracer) for leaf in traced):
        return None
    pairs = [unwrap(leaf) for leaf in traced]
    arrays = [array for array, _ in pairs]
    try:
        shapes = tuple(array.aval if isinstance(array, Promised) else jax.typeof(array) for array in arrays)
    except TypeError:
        return None
    marks = iter(mark for _, mark in pairs)
    leaves = tuple(next(marks) if _varies(leaf) else leaf for leaf in found)
    places = tuple(array.sharding if getattr(array, "committed", False) else None for array in arrays)
    return _Call(value, traced, arrays, leaves, tree, shapes, places)


def _varies(leaf: Any) -> bool:
    return isinstance(leaf, Promised) or eqx.is_array(leaf)


def _find(key: Hashable, make: Callable[[], Executable]) -> Executable:
    """The executable of a key, made by one thread if it is new."""
    with _LOCK:
        if key in _EXECUTABLES:
            _EXECUTABLES.move_to_end(key)
            return _EXECUTABLES[key]
        making = _COMPILING.setdefault(key, threading.Lock())
    with making:
        with _LOCK:
            if key in _EXECUTABLES:
                return _EXECUTABLES[key]
        try:
            made = make()
            with _LOCK:
                _EXECUTABLES[key] = made
                while len(_EXECUTABLES) > CAPACITY:
                    _EXECUTABLES.popitem(last=False)
        finally:
            with _LOCK:
                _COMPILING.pop(key, None)
    return made


def compiling() -> bool:
    """Whether some thread is making an executable that is new to this process."""
    return bool(_COMPILING)


def ready() -> None:
    """Call this before JAX is used: the process may be a forked child, or full of compiled code, which is dropped."""
    refuse_after_fork()
    if not compiling():
        make_room(_drop)


def _drop() -> None:
    with _LOCK:
        _EXECUTABLES.clear()


def _forget(key: Hashable, executable: Executable) -> None:
    with _LOCK:
        if _EXECUTABLES.get(key) is executable:
            del _EXECUTABLES[key]


@overload
def program(fun: Callable[..., Any], /) -> Program: ...
@overload
def program(*, small: int | Callable[..., bool] = ...) -> Callable[[Callable[..., Any]], Program]: ...
def program(fun: Callable[..., Any] | None = None, /, *, small: int | Callable[..., bool] = SMALL) -> Any:
    """Compile a function of pytrees: arrays (NumPy's too) are traced, everything else is static.

    Work is small, and compiled with few optimisations on a CPU, if the array arguments hold fewer than `small` numbers
    together and the function has no long loops, or if `small`, a function of the same arguments, says so.
    """
    return functools.partial(Program, small=small) if fun is None else Program(fun, small)
