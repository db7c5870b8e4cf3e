"""`tp.fit` when things go wrong: models that are, runs that break, and interruption before anything has happened."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.errors import BoundDecreased, InvalidParameter, NumericalFailure
from temperance.inference import run as loop
from temperance.models import Powers
from tests.matrix.effects import Effects, Together

X = np.array([1.3, 0.2, 2.1, 0.9, 1.7, 0.4])
PRIOR = tp.Normal([0.5], [[2.0]])


class PluggedIn(Effects):
    """Wrong: (E a)² in place of E[a²], so that log_evidence is not affine in the statistics of a."""

    def log_evidence(self, m: Any, x: Any, powers: Powers = Powers(), key: Any = None) -> Any:
        a = m["a"].linear[0]
        return super().log_evidence(m, x, powers, key) - m["a"].precision[0, 0] - 0.5 * a**2


class Fragile(Effects):
    """Has no value anywhere but at its start."""

    def log_evidence(self, m: Any, x: Any, powers: Powers = Powers(), key: Any = None) -> Any:
        moved = jnp.abs(m["a"].linear[0] - 0.5) > 1e-9
        return jnp.where(moved, jnp.nan, super().log_evidence(m, x, powers, key))


def test_coupled_blocks_in_one_group() -> None:
    with pytest.raises(BoundDecreased, match=r"the bound fell by .* at step \d+ of restart 0"):
        tp.fit(Together(PRIOR, PRIOR, PRIOR), X)


def test_log_evidence_that_is_not_affine() -> None:
    with pytest.raises(BoundDecreased, match="the model's groups or its log_evidence are wrong"):
        tp.fit(PluggedIn(PRIOR, tp.Normal([0.0], [[1e-3]])), X)


@pytest.mark.parametrize("max_iter", [1, 10])
def test_a_bound_that_is_not_a_number_never_leaves(max_iter: int) -> None:
    """Not even when the budget ends right before it is looked at."""
    with pytest.raises(NumericalFailure, match="VB met an impossible state at step 1 of restart 0"):
        tp.fit(Fragile(PRIOR, PRIOR), X, tp.VB(max_iter=max_iter))


def test_interruption_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, chunk = [], loop._chunk

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return chunk(*arguments)

    interrupted.ahead = chunk.ahead
    monkeypatch.setattr(loop, "_chunk", interrupted)
    fit = tp.fit(Effects(PRIOR, PRIOR), X)
    assert not fit.converged
    assert fit.log_evidence == pytest.approx(float(fit.model.bound(fit.state, fit.data)), abs=1e-12)
    np.testing.assert_array_equal(fit.posterior["a"].location, PRIOR.location)


def test_interruption_after_the_loop_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves, reverse AIS and the like come after the loop: Ctrl-C there costs only what they would have added."""
    whole = tp.fit(Effects(PRIOR, PRIOR), X)

    def improve(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(tp.VB, "improve", improve)
    fit = tp.fit(Effects(PRIOR, PRIOR), X)
    assert fit.interrupted and not fit.converged
    assert fit.log_evidence == whole.log_evidence


def test_history_ends_where_the_posterior_is() -> None:
    fit = tp.fit(Effects(PRIOR, PRIOR), X, tp.VB(tol=1e-12))
    assert fit.converged and fit.seconds > 0
    assert fit.history["elbo"][-1] == fit.log_evidence
    assert (np.diff(fit.history["elbo"]) >= -1e-12).all()


SEEDS = ["a", 1.5, None, True, 2**64, 10**400, jax.random.PRNGKey(0), np.random.SeedSequence(1)]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: type(seed).__name__)
def test_seeds(seed: Any) -> None:
    with pytest.raises(InvalidParameter, match="seed must be a whole number") as caught:
        tp.fit(Effects(PRIOR, PRIOR), X, seed=seed)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 150


def test_keys_that_are_not_one_key() -> None:
    gone = jax.random.key(0)
    gone.delete()
    for keys, found in (
        (jax.random.split(jax.random.key(0), 2), r"keys of shape \(2,\)"),
        (gone, "one that was deleted"),
    ):
        with pytest.raises(InvalidParameter, match=f"seed must be one JAX key, got {found}"):
            tp.fit(Effects(PRIOR, PRIOR), X, seed=keys)
