"""The one loop: restarts, convergence, budgets, the guard, interruption, silence, and what is compiled when."""

import contextlib
import os
import pty
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.errors import BoundDecreased
from temperance.models import Posterior

X = tp.datasets.load("galaxy")


def fit(**options):
    seed = options.pop("seed", 0)
    return tp.fit(tp.GaussianMixture(2), X, tp.VB(restarts=4, **options), seed=seed)


def test_the_best_of_all_starts_is_returned():
    found = fit()
    assert found.history["restarts"].shape == (4,)
    assert found.log_evidence == found.history["restarts"].max()
    assert found.converged
    # The bound that is reported is that of the posterior that is returned.
    assert float(found.model.bound(found.state, found.data)) == pytest.approx(found.log_evidence, rel=1e-12)


def test_the_same_seed_gives_the_same_bits():
    one, two, other = fit(seed=5), fit(seed=5), fit(seed=6)
    np.testing.assert_array_equal(one.history["elbo"], two.history["elbo"])
    assert one.history["elbo"][0] != other.history["elbo"][0]


def test_a_key_is_a_seed():
    np.testing.assert_array_equal(fit(seed=jax.random.key(5)).history["elbo"], fit(seed=5).history["elbo"])


def test_a_spent_budget_is_not_convergence():
    short = fit(max_iter=3)
    assert not short.converged
    assert len(short.history["elbo"]) == 3
    # Its bound is of the last state, above the last one in the history, which is of the state before.
    assert short.log_evidence >= short.history["elbo"][-1]


def test_a_tighter_tolerance_goes_on():
    loose, tight = fit(tol=1e-4), fit(tol=1e-10)
    assert len(loose.history["elbo"]) < len(tight.history["elbo"])
    assert loose.log_evidence <= tight.log_evidence
    # What was promised to be left is about what was left.
    assert tight.log_evidence - loose.log_evidence < 10 * 1e-4 * abs(tight.log_evidence)


def test_only_new_shapes_are_compiled(monkeypatch):
    monkeypatch.setenv("TEMPERANCE_ENGINE", "plain")
    fit()
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    try:
        fit(seed=11)
        fit(tol=1e-9, max_iter=77)
        assert not compiled
        tp.fit(tp.GaussianMixture(2), X[:-1], tp.VB(restarts=4), seed=0)  # 81 and 82 rows are padded to 88
        assert not compiled
        tp.fit(tp.GaussianMixture(2), X[:50], tp.VB(restarts=4), seed=0)
        assert compiled
    finally:
        jax.monitoring.clear_event_listeners()


class Falling(tp.GaussianMixture):
    """Moves every mean a little after the update: the bound must fall sooner or later."""

    def sweep(self, q, data, *args, **options):
        q, bound = super().sweep(q, data, *args, **options)
        natural = q.blocks["components"].natural
        moved = natural.__class__(natural.first * 1.5, natural.count, natural.second * 2.5, natural.dof)
        return Posterior(q.blocks | {"components": q.blocks["components"].with_natural(moved)}, {}), bound


def test_a_bound_that_falls_is_a_named_error():
    with pytest.raises(BoundDecreased, match=r"the bound fell by .* at step"):
        tp.fit(Falling(2), X, tp.VB(max_iter=20), seed=0)


def test_interruption_returns_the_best_so_far(monkeypatch):
    from temperance.inference import run

    monkeypatch.setenv("TEMPERANCE_ENGINE", "plain")
    calls = []
    step = run._chunk

    def interrupted(*arguments):
        calls.append(0)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return step(*arguments)

    interrupted.ahead = step.ahead
    monkeypatch.setattr(run, "_chunk", interrupted)
    found = fit(tol=0.0)
    assert not found.converged
    assert np.isfinite(found.log_evidence)
    assert np.isfinite(found.log_predictive(X)).all()


SCRIPT = """
import temperance as tp
tp.fit(tp.GaussianMixture(2), tp.datasets.load("galaxy"), tp.VB(restarts=4, max_iter=5), seed=0)
"""


def environment() -> dict[str, str]:
    cache = jax.config.jax_compilation_cache_dir
    return {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache, "TERM": "xterm", "COLUMNS": "100"}


def test_a_pipe_sees_nothing():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment())
    assert done.stdout == "" and done.stderr == ""


@pytest.mark.slow
def test_a_terminal_sees_the_bound_and_the_steps():
    terminal, other_end = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stderr=other_end, env=environment())
    os.close(other_end)
    pieces = []
    with contextlib.suppress(OSError):  # how a terminal says that the other end is closed
        while piece := os.read(terminal, 4096):
            pieces.append(piece)
    os.close(terminal)
    assert process.wait() == 0
    shown = b"".join(pieces).decode(errors="replace")
    assert "VB" in shown and "/5" in shown and "bound -" in shown


def test_one_jitted_function_serves_new_instances():
    traced = []

    @jax.jit
    def total(family):
        traced.append(0)
        return jnp.sum(family.log_normaliser())

    total(tp.Dirichlet([1.0, 2.0]))
    total(tp.Dirichlet([3.0, 4.0]))
    assert len(traced) == 1
