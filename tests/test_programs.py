"""Compiled programs: called like `eqx.filter_jit`, few in memory, kept on disk for the user alone."""

import functools
import gc
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import temperance as tp
from temperance import errors
from temperance.inference import run
from temperance.inference.progress import words
from temperance.programs import (
    CASES,
    awaiting,
    clear,
    compilation,
    environment,
    identity,
    optimise,
    program,
    show,
    store,
    warm,
)
from temperance.programs import program as decorator
from temperance.programs.program import _EXECUTABLES, Program

memory = sys.modules["temperance.programs.program"]
X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0.0], [4.0]], 20, axis=0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A store of its own, nothing in memory, and no cache of JAX: what comes from there is not kept."""
    monkeypatch.setenv("TEMPERANCE_CACHE", str(tmp_path))
    monkeypatch.setattr(memory, "_EXECUTABLES", type(_EXECUTABLES)())
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    yield tmp_path / "programs"
    jax.config.update("jax_enable_compilation_cache", True)
    compilation_cache.reset_cache()


def forget():
    memory._EXECUTABLES.clear()


def counted(function):
    """The function as a program, and a list that grows whenever it is traced."""
    traced = []

    @functools.wraps(function)
    def inner(*args, **kwargs):
        traced.append(0)
        return function(*args, **kwargs)

    return program(inner), traced


# --- called like eqx.filter_jit


def test_arrays_are_traced_and_the_rest_is_static():
    total, traced = counted(
        lambda x, scale, *, names=("a",): {"sum": scale * jnp.sum(x["a"]), "names": names, "n": None}
    )
    first = total({"a": np.arange(3.0)}, 2)
    assert first["names"] == ("a",) and first["n"] is None and first["sum"] == 6.0
    assert total({"a": jnp.arange(3.0) + 1}, scale=2)["sum"] == 12.0  # NumPy or JAX, by position or name
    assert len(traced) == 1
    assert total({"a": np.arange(3.0)}, 3)["sum"] == 9.0
    assert total({"a": np.arange(3.0)}, 3.0)["sum"] == 9.0  # an int and a float are not the same
    assert total({"a": np.arange(4.0)}, 3)["sum"] == 18.0
    assert total({"a": np.arange(4)}, 3)["sum"].dtype == jnp.int64
    assert len(traced) == 5


def test_random_keys_and_modules_go_in_and_out():
    next_one = program(lambda key, family: (jax.random.split(key), family.sample(key), family))
    key = jax.random.key(3)
    keys, draw, family = next_one(key, tp.Dirichlet([1.0, 2.0]))
    assert jax.random.key_data(keys).tolist() == jax.random.key_data(jax.random.split(key)).tolist()
    assert isinstance(family, tp.Dirichlet) and draw.shape == (2,)
    assert keys.dtype == key.dtype and not draw.committed


def test_a_program_is_made_ahead_of_the_arrays_that_another_returns():
    """By another thread, once; the call that comes meanwhile waits for it."""
    start = program(lambda x: {"x": x + 1.0, "n": 3})
    step, traced = counted(lambda state, rate: state["x"] * rate)
    rate = jnp.asarray(2.0)
    with awaiting(lambda state: step.ahead(state, rate)):
        state = start(np.arange(3.0))
    assert step(state, rate).tolist() == [2.0, 4.0, 6.0]
    assert len(traced) == 1


@pytest.mark.parametrize("method", [tp.VB(max_iter=5), tp.EP(max_passes=5)], ids=["VB", "EP"])
def test_start_and_steps_are_compiled_once(folder, monkeypatch, method):
    """What is made ahead is what is called, at the first step and at the next."""
    names, make = [], Program._make
    monkeypatch.setattr(Program, "_make", lambda self, *a, **k: names.append(self.fun.__name__) or make(self, *a, **k))
    tp.fit(tp.HMM(2, engine="device"), X[:20], method, seed=0)  # not by NumPy, which compiles nothing
    assert sorted(names) == ["_chunk", "_start"]


def test_what_fails_ahead_fails_where_it_is_called():
    start, step = program(lambda x: x + 1.0), program(lambda x: x @ jnp.ones(7))
    with awaiting(step.ahead):
        x = start(np.arange(3.0))
    with pytest.raises(TypeError):
        step(x)


def test_transformations_and_tracers_see_the_function():
    square = program(lambda x: x**2)
    assert jax.vmap(square)(jnp.arange(3.0)).tolist() == [0.0, 1.0, 4.0]
    assert jax.grad(square)(3.0) == 6.0
    assert jax.jit(lambda x: square(x) + 1)(2.0) == 5.0
    assert eqx.filter_eval_shape(square, jnp.ones((2, 3))).shape == (2, 3)
    with jax.disable_jit():
        assert program(lambda x: float(x) + 1)(jnp.ones(())) == 2.0


def test_methods_are_bound():
    class Scale:
        factor = 3.0

        @decorator
        def of(self, x):
            return self.factor * x

    assert Scale().of(np.ones(2)).tolist() == [3.0, 3.0]
    assert isinstance(Scale.of, Program)


def refuse(x):
    raise errors.InvalidData(f"x has {x.shape[0]} rows")


def branch(x):
    return 1 if x[0] > 0 else 2


@pytest.mark.parametrize("call", [
    lambda make: make(refuse)(jnp.ones(3)),
    lambda make: make(branch)(jnp.ones(3)),
    lambda make: make(refuse)(),
    lambda make: make(refuse)(np.array([object()])),
    lambda make: make(lambda x, y: x)(1.0, {1, 2}),
    lambda make: make(lambda x: jnp.ones((2, 3)) @ x)(np.ones(2)),
])  # fmt: skip
def test_errors_are_those_of_filter_jit(call):
    with pytest.raises(Exception) as expected:
        call(eqx.filter_jit)
    with pytest.raises(expected.type) as found:
        call(program)
    said, wanted = (re.sub("0x[0-9a-f]+", "", str(error.value).splitlines()[0]) for error in (found, expected))
    assert said == wanted


def fail(x):
    raise errors.NumericalFailure("the host cannot")


def test_an_error_in_a_callback_reaches_the_caller(caplog):
    on_host = lambda x: jax.pure_callback(fail, jax.ShapeDtypeStruct((), x.dtype), x)  # noqa: E731
    with pytest.raises(jax.errors.JaxRuntimeError, match="the host cannot"):
        program(on_host)(jnp.ones(()))
    assert not [record for record in caplog.records if record.getMessage() == "jax.pure_callback failed"]


def test_many_threads_compile_once():
    slow, traced = counted(lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(4)))
    found = []
    threads = [threading.Thread(target=lambda: found.append(slow(np.ones((4, 5))))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traced) == 1 and len(found) == 8 and all((value == found[0]).all() for value in found)


def test_a_fit_has_the_bits_of_filter_jit(monkeypatch):
    def bound():
        return tp.fit(tp.GaussianMixture(2), X, tp.VB(restarts=2), seed=0).history["elbo"]

    ours = bound()
    monkeypatch.setattr(run, "_start", eqx.filter_jit(run._start.fun, compiler_options=dict(compilation.CHEAP)))
    monkeypatch.setattr(run, "_chunk", eqx.filter_jit(run._chunk.fun, compiler_options=dict(compilation.CHEAP)))
    np.testing.assert_array_equal(ours, bound())


# --- options of the compiler


@pytest.fixture
def cheaply(monkeypatch):
    used = []
    compile_ = compilation._compile

    def watched(lowered, options):
        used.append(options == compilation.CHEAP)
        return compile_(lowered, options)

    monkeypatch.setattr(compilation, "_compile", watched)
    return used


def test_little_work_is_compiled_cheaply(cheaply):
    double = program(lambda x: 2 * x)
    double(np.ones(10))
    double(np.ones(2**16))
    program(small=5)(lambda x: 2 * x)(np.ones(10))
    program(small=lambda x: len(x) == 10)(lambda x: 2 * x)(np.ones(10))
    assert cheaply == [True, False, False, True]
    for fully in (True, False):
        with optimise(fully):
            double(np.ones(10)), double(np.ones(2**16))
    assert cheaply[4:] == [False, True, True]  # the second of them is large, and was compiled well before
    double(np.ones(10)), double(np.ones(2**16))
    assert len(cheaply) == 7  # each was made once


def loops(x, n):
    return jax.lax.scan(lambda x, _: (jax.lax.fori_loop(0, 10, lambda _, x: x * 2, x), None), x, length=n)[0]


def test_long_loops_are_compiled_well(cheaply):
    jaxpr = jax.make_jaxpr(loops, static_argnums=1)(np.ones(100), 7)
    assert 7 * 10 * 200 <= compilation.work(jaxpr) <= 7 * 10 * 220  # a product reads and writes 200 numbers
    program(loops)(np.ones(100), 7)
    program(loops)(np.ones(1000), 20_000)
    assert cheaply == [True, False]


def test_steps_on_few_numbers_do_not_count_and_loops_of_unknown_length_do():
    def until(x, body=lambda x: x * 2):
        return jax.lax.while_loop(lambda both: both[1] < 5, lambda both: (body(both[0]), both[1] + 1), (x, 0))[0]

    assert compilation.work(jax.make_jaxpr(until)(np.ones(10))) == 0
    assert compilation.work(jax.make_jaxpr(until)(np.ones(1000))) == compilation.PASSES * 2001
    within = jax.make_jaxpr(lambda x: until(x, until))(np.ones(1000))
    assert compilation.work(within) == compilation.PASSES * compilation.INNER_PASSES * 2001


def test_an_option_that_jax_does_not_know_is_left_out(monkeypatch):
    monkeypatch.setattr(compilation, "_REJECTED", set())
    monkeypatch.setattr(compilation, "CHEAP", {"xla_no_such_option": 3, "xla_backend_optimization_level": 0})
    assert program(lambda x: x + 1)(np.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert sorted(compilation._REJECTED) == ["xla_no_such_option"]


# --- few in memory


def maps():
    gc.collect()
    return len(Path("/proc/self/maps").read_text().splitlines())


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="memory maps are counted on Linux")
def test_many_shapes_hold_few_memory_maps(monkeypatch, folder):
    monkeypatch.setattr(memory, "CAPACITY", 4)
    centre = program(lambda x: jnp.cumsum(jnp.exp(x - jnp.mean(x))))
    for n in range(1, 11):
        centre(np.ones(n))
    early = maps()
    for n in range(11, 61):
        centre(np.ones(n))
    assert len(memory._EXECUTABLES) == 4
    assert maps() - early < 200  # fifty executables have 900


def test_the_least_recently_used_goes_first(monkeypatch, folder):
    monkeypatch.setattr(memory, "CAPACITY", 2)
    double, traced = counted(lambda x: 2 * x)
    for n in (1, 2, 1, 3, 1, 2):
        double(np.ones(n))
    assert len(traced) == 4  # 1, 2, 3, and 2 again


# --- kept on disk

SCRIPT = """
import json, sys, jax, numpy as np
jax.config.update("jax_enable_compilation_cache", False)
import temperance as tp
names = []
def listen(event, seconds, **more):
    if event == "/jax/core/compile/backend_compile_duration": names.append(more["fun_name"])
    if event == "/jax/core/compile/jaxpr_trace_duration" and more["fun_name"] == "_chunk": names.append("traced")
jax.monitoring.register_event_duration_secs_listener(listen)
x = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0.0], [4.0]], 20, axis=0)
fit = tp.fit(tp.GaussianMixture(2), x, tp.VB(restarts=2), seed=0)
draw = fit.sample(jax.random.key(0), 1)
print(json.dumps({"names": names, "bounds": [value.hex() for value in fit.history["elbo"].tolist()]}))
"""


def fitted(place):
    # Small mixtures compile nothing unless they are told to.
    variables = {**os.environ, "TEMPERANCE_CACHE": str(place), "TEMPERANCE_ENGINE": "plain"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=variables)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_a_second_process_neither_traces_nor_compiles(tmp_path):
    ours = {"jit(_start)", "jit(_chunk)", "traced"}
    first = fitted(tmp_path)
    assert set(first["names"]) & ours == ours
    second = fitted(tmp_path)
    assert set(second["names"]) & ours == set()
    assert second["bounds"] == first["bounds"]


@pytest.fixture
def kept(folder, monkeypatch):
    """A program of the package that is kept, and how often it was built."""
    built = []
    build = memory.build
    monkeypatch.setattr(memory, "build", lambda *args: built.append(0) or build(*args))
    monkeypatch.setattr(identity, "_KNOWN", {*identity._KNOWN, "test_programs", __name__.split(".")[0]})
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or type(sys)(__name__))
    monkeypatch.setattr(sys.modules[__name__], "factor", factor, raising=False)
    return program(factor), built


def factor(x, shift):
    return {"factor": jnp.linalg.cholesky(x @ x.T + shift * jnp.eye(x.shape[0])), "shift": shift}


ROWS = np.arange(6.0).reshape(2, 3)


def test_kept_executables_give_the_same_bits(kept, folder):
    function, built = kept
    first = function(ROWS, 1.0)
    forget()
    again = function(ROWS, 1.0)
    assert len(built) == 1 and again["shift"] == 1.0 and not again["factor"].committed
    np.testing.assert_array_equal(first["factor"], again["factor"])
    forget(), function(ROWS, 2.0)
    forget(), function(ROWS.astype(np.float32), 1.0)
    with jax.default_matmul_precision("float32"):
        forget(), function(ROWS, 1.0)
    assert len(built) == 4 and len(list(folder.glob("*.program"))) == 4
    assert [item.name.rsplit("-")[0] for item in show()] == ["factor"] * 4
    assert all(item.bytes > 1000 and 0 <= item.age < 600 for item in show())
    assert clear() == 4 and show() == []


def test_results_of_kept_executables_are_arrays_like_any_other(kept, folder):
    """JAX 0.11 tells abstract values apart by identity, also those that come from a file."""
    function, built = kept
    function(ROWS, 1.0), forget()
    square = function(ROWS, 1.0)["factor"]
    assert square.aval == jnp.ones((2, 2)).aval
    function(square, 1.0), forget()
    for _ in range(3):
        square = function(square, 1.0)["factor"]
    assert len(built) == 2 and len(memory._EXECUTABLES) == 1


def test_what_a_kept_executable_returns_is_known_before_it_is_loaded(kept, folder):
    function, _ = kept
    told = []
    function(ROWS, 1.0), forget()
    with awaiting(told.append):
        found = function(ROWS, 1.0)
    assert [result["factor"].aval for result in told] == [found["factor"].aval]
    assert told[0]["shift"] == 1.0


def damage(path):
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(bytes(content))


def forge(path):
    (path.parent / "key").write_bytes(bytes(32))


@pytest.mark.parametrize(
    "harm", [damage, forge, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"x" * 99)]
)
def test_a_damaged_or_foreign_file_is_never_unpickled(kept, folder, monkeypatch, harm):
    function, built = kept
    function(ROWS, 1.0)
    (path,) = folder.glob("*.program")
    harm(path)
    forget()
    monkeypatch.setattr(memory, "unpack", lambda content: pytest.fail("unpickled"))
    assert function(ROWS, 1.0)["factor"].shape == (2, 2)
    assert len(built) == 2


def test_what_cannot_be_loaded_is_removed(kept, folder):
    function, built = kept
    function(ROWS, 1.0)
    (path,) = folder.glob("*.program")
    name, digest = path.stem.split("-")
    store.write(name, digest, b"not a pickle")
    forget(), function(ROWS, 1.0)
    assert len(built) == 2
    forget(), function(ROWS, 1.0)
    assert len(built) == 2  # and the new one is kept


def test_what_loads_but_cannot_run_is_made_anew(kept, folder, monkeypatch):
    function, built = kept
    first = function(ROWS, 1.0)
    monkeypatch.setattr(compilation.Executable, "__call__", stumbling(compilation.Executable.__call__))
    forget()
    np.testing.assert_array_equal(function(ROWS, 1.0)["factor"], first["factor"])
    assert len(built) == 2
    assert function(ROWS, 1.0)["shift"] == 1.0 and len(built) == 2


def stumbling(call):
    def inner(self, arrays):
        if self.origin == "disk":
            raise jax.errors.JaxRuntimeError("NOT_FOUND: Function dot_general.1_kernel not found (type id: 1)")
        return call(self, arrays)

    return inner


def test_what_comes_from_the_cache_of_jax_is_not_kept(kept, folder, tmp_path, monkeypatch):
    # XLA serialises what it has itself read from a cache into something that loads and does not run.
    function, built = kept
    compile_ = compilation._compile

    def hit(*args):
        jax.monitoring.record_event("/jax/compilation_cache/cache_hits")
        return compile_(*args)

    monkeypatch.setattr(compilation, "_compile", hit)
    function(ROWS, 1.0)
    assert len(built) == 1 and not list(folder.glob("*.program"))


def test_a_file_does_not_pass_for_another(kept, folder):
    function, _ = kept
    function(ROWS, 1.0)
    (path,) = folder.glob("*.program")
    other = path.with_name(f"factor-{'0' * 64}.program")
    path.rename(other)
    assert store.read("factor", "0" * 64) is None and not other.exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_used(kept, folder, mode):
    function, built = kept
    function(ROWS, 1.0)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    folder.chmod(mode)
    forget(), function(ROWS, 1.0), function(ROWS, 2.0)
    assert len(built) == 3 and show() == []
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


def test_a_link_or_a_file_that_others_can_write_is_not_used(kept, folder, monkeypatch):
    function, built = kept
    function(ROWS, 1.0)
    (path,) = folder.glob("*.program")
    path.chmod(0o660)
    forget(), function(ROWS, 1.0)
    assert len(built) == 2
    (folder / "key").chmod(0o644)
    forget(), function(ROWS, 1.0)
    assert len(built) == 3
    (folder.parent / "linked").mkdir()
    (folder.parent / "linked" / "programs").symlink_to(folder)
    monkeypatch.setenv("TEMPERANCE_CACHE", str(folder.parent / "linked"))
    assert store.folder() is None


@pytest.mark.parametrize("choice", ["", "off", "/dev/null"])
def test_nothing_is_kept_where_nothing_should_be(kept, monkeypatch, choice):
    function, built = kept
    monkeypatch.setenv("TEMPERANCE_CACHE", choice)
    function(ROWS, 1.0)
    forget(), function(ROWS, 1.0)
    assert len(built) == 2 and show() == [] and clear() == 0


def test_the_folder_stays_within_its_limit(folder, monkeypatch):
    monkeypatch.setattr(store, "LIMIT", 5000)
    for index in range(8):
        store.write("f", f"{index:064}", bytes(1000))
        os.utime(folder / f"f-{index:064}.program", (index, index))
    assert [store.read("f", f"{index:064}") is not None for index in range(8)] == [False] * 4 + [True] * 4
    for index in range(4, 8):
        os.utime(folder / f"f-{index:064}.program", (index, index))
    store.read("f", f"{4:064}")  # used now: 5 is the oldest
    store.write("f", f"{9:064}", bytes(1000))
    assert [store.read("f", f"{index:064}") is not None for index in (4, 5, 6, 7, 9)] == [True, False, True, True, True]
    store.write("f", f"{10:064}", bytes(6000))
    assert store.read("f", f"{10:064}") is None


def test_many_writers_share_the_folder(folder):
    found = []

    def work():
        for index in range(20):
            store.write("f", f"{index:064}", bytes([index]) * 1000)
            found.append(store.read("f", f"{index:064}") == bytes([index]) * 1000)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 120  # one key, made once, and only whole files
    assert not list(folder.glob("*.part")) and len(show()) == 20


def test_a_program_that_calls_python_stays_in_memory(kept, folder, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "on_host", on_host, raising=False)
    function = program(on_host)
    assert function(ROWS).tolist() == [0.0, 3.0]
    assert store.folder() == folder and not list(folder.glob("*.program"))


def on_host(x):
    return jax.pure_callback(lambda x: np.asarray(x)[:, 0], jax.ShapeDtypeStruct(x.shape[:1], x.dtype), x)


# --- the text of static arguments


def test_equal_arguments_have_equal_texts_and_others_others():
    values = [
        1, 1.0, True, "1", None, (1,), [1], {"a": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, 0.0, -0.0, float("nan"),
        np.dtype("f4"), np.dtype("f8"), tp.VB(), tp.VB(restarts=3), tp.SVI(), tp.VB, jnp.sum, jnp.mean,
        functools.partial(jnp.sum, axis=0), functools.partial(jnp.sum, axis=1), tp.GaussianMixture(2),
        tp.GaussianMixture(3), frozenset({1, 2}),
    ]  # fmt: skip
    texts = [describe(value) for value in values]
    assert len(set(texts)) == len(values)
    assert texts == [describe(value) for value in values]
    assert not any(" at 0x" in text for text in texts)


def describe(value):
    return identity.describe(value, [leaf for leaf in jax.tree.leaves(value) if eqx.is_array(leaf)])


def test_code_that_may_change_unnoticed_has_no_text():
    class Own(tp.GaussianMixture):
        pass

    for value in (lambda x: x, Own(2), object(), threading.Lock(), counted):
        with pytest.raises(identity.NoIdentity):
            describe(value)
    extra = tp.VB()
    object.__setattr__(extra, "note", 1)
    with pytest.raises(identity.NoIdentity, match="no fields"):
        describe(extra)
    with pytest.raises(identity.NoIdentity):
        identity.describe((), [np.ones(2)])  # a leaf that the walk does not meet


def test_sources_that_changed_after_their_import_keep_nothing(monkeypatch):
    assert "run.py" in environment._sources()
    monkeypatch.setattr(environment, "_IMPORTED", 0.0)
    with pytest.raises(identity.NoIdentity):
        environment._sources()


# --- the common cases


def test_warm_keeps_the_common_cases(folder):
    warm(["regression"])
    assert {item.name.split("-")[0] for item in show()} == {"start", "chunk"}
    with pytest.raises(errors.InvalidParameter, match="which must name cases among regression"):
        warm(["mixtures"])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_common_case_runs(folder, case):
    warm([case])
    kept = [item.name.split("-")[0] for item in show()]
    expected = 0 if case == "topics" else 1  # topics go through a Numba kernel
    assert kept.count("start") == kept.count("chunk") == expected


def test_the_progress_line_says_that_something_is_compiled():
    seen = []

    @program
    def noticed(x):
        seen.append(words())
        return x

    noticed(np.zeros(3))
    assert seen == ["compiling (first time for this shape)"]
    assert words() == ""
