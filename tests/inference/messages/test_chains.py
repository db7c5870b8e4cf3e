"""Message passing on hidden Markov models, against sums over every path of states."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import temperance as tp
from temperance.errors import UnsupportedMethod
from temperance.inference.messages.together import look
from temperance.models._factors import exact_prior
from tests.exact import marginals, paths
from tests.tiers import with_slow

STEPS = np.array([1, 1, 0, 1, 0, 0, 0], float)[:, None]
MOVES = np.array([[2.0, 0.7], [0.7, 2.0]])


def heads(x: np.ndarray) -> float:
    return marginals.bernoulli(x, a=0.6, b=0.8)


def chain(moves: Any = MOVES, **options: Any) -> tp.HMM:
    return tp.HMM(len(moves), "bernoulli", prior=tp.Beta(0.6, 0.8), concentration=moves, **options)


def fitted(alpha: float, model: tp.HMM, x: Any) -> tp.Fit:
    return tp.fit(model, x, tp.MessagePassing(alpha), seed=1, progress=False)


@pytest.mark.parametrize(("moves", "x"), [([[1.0]], STEPS), (MOVES, STEPS[:1])], ids=["K = 1", "T = 1"])
def test_exact_cases(moves: Any, x: np.ndarray) -> None:
    exact = paths.log_evidence([x], heads, np.ones(len(moves)), moves)
    assert fitted(1.0, chain(moves), x).log_evidence == pytest.approx(exact, abs=1e-8)


def test_alpha_zero_is_variational_bayes() -> None:
    fit = fitted(0.0, chain(), STEPS)
    vb = tp.fit(chain(), STEPS, tp.VB(tol=1e-13, max_iter=5000), seed=1, progress=False)
    assert fit.converged and fit.log_evidence == pytest.approx(vb.log_evidence, abs=1e-7)


def test_closer_than_the_bound_and_symmetric() -> None:
    exact = paths.log_evidence([STEPS], heads, [1.0, 1.0], MOVES)
    fit, bound = fitted(1.0, chain(), STEPS), fitted(0.0, chain(), STEPS)
    assert abs(fit.log_evidence - exact) < 0.1 < 1.0 < exact - bound.log_evidence
    assert fit.details["labels"] == "symmetric" and fit.details["log_labellings"] == pytest.approx(0.0, abs=1e-6)
    assert fit.label_correction == pytest.approx(0.0, abs=1e-6)


APART = np.array([[4.0, 1.0], [1.0, 4.0]])


def told_apart(x: Any) -> float:
    """The evidence where state 0 has the prior Beta(3, 1) and state 1 Beta(1, 3), transitions those of `APART`."""
    sequences = x if isinstance(x, list) else [x]
    rows, begins = np.concatenate(sequences), np.cumsum([0, *map(len, sequences[:-1])])
    on, logs = np.setdiff1d(np.arange(len(rows)), begins), []
    for path in paths.every_path(len(rows), 2):
        pairs = np.zeros((2, 2))
        np.add.at(pairs, (path[on - 1], path[on]), 1.0)
        first = np.bincount(path[begins], minlength=2)
        value = paths._counts(np.ones(2), first) + sum(map(paths._counts, APART, pairs))
        for state, (a, b) in enumerate(((3.0, 1.0), (1.0, 3.0))):
            seen = rows[(path == state) & ~np.isnan(rows[:, 0])]
            value += marginals.bernoulli(seen, a=a, b=b)
        logs.append(value)
    return float(logsumexp(logs))


def chain_apart(**options: Any) -> tp.HMM:
    prior = tp.Beta([[3.0], [1.0]], [[1.0], [3.0]])
    return tp.HMM(2, "bernoulli", prior=prior, concentration=APART, **options)


@pytest.mark.parametrize(
    "kind", with_slow(["one sequence", "sorted", "two sequences", "missing steps"], "two sequences")
)
def test_near_the_sum_over_all_paths(kind: str) -> None:
    gaps = STEPS.copy()
    gaps[[2, 6]] = np.nan
    x: Any = {"one sequence": STEPS, "sorted": np.sort(STEPS, axis=0), "two sequences": [STEPS[:3], STEPS[3:]],
              "missing steps": gaps}[kind]  # fmt: skip
    exact, model = told_apart(x), chain_apart(missing="marginalise")
    fit = fitted(1.0, model, x)
    bound = tp.fit(model, x, tp.VB(tol=1e-10, max_iter=2000), seed=1, progress=False)
    assert fit.converged and abs(fit.log_evidence - exact) < 0.5 * (exact - bound.log_evidence)
    assert fitted(0.5, model, x).log_evidence < exact


@pytest.mark.slow
def test_the_derivative_in_the_prior_is_a_difference_of_means() -> None:
    """ln s is stationary in the messages, so that ∂ ln s/∂η₀ = E_q[t] − E_prior[t]."""
    fit = fitted(1.0, chain(), STEPS)
    model, sites = fit.model, fit.details["sites"]
    factors, prior = model.factors(fit.data), exact_prior(model)

    def log_s(natural: Any) -> Any:
        moved = {name: family.with_natural(natural[name]) for name, family in prior.items()}
        blocks = {n: f.with_natural(jax.tree.map(lambda a, b: a + jnp.sum(b, 0), f.natural, sites[n]))
                  for n, f in moved.items()}  # fmt: skip
        return look(1.0, factors, model._with(prior=moved), blocks, sites).log_evidence

    slope = jax.grad(log_s)({name: family.natural for name, family in prior.items()})
    for name, family in prior.items():
        expected = fit.state.blocks[name].mean() - family.mean()
        for ours, exactly in zip(jax.tree.leaves(slope[name]), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(ours, exactly, atol=1e-7)


def test_what_is_not_built_is_said() -> None:
    with pytest.raises(UnsupportedMethod, match="double loop"):
        tp.fit(chain(), STEPS, tp.EP(double_loop=True))


@pytest.mark.parametrize(
    "kind",
    with_slow(["two steps", "two sequences", "a step that is missing"], "two sequences", "a step that is missing"),
)
def test_two_steps_are_exact_with_the_correction(kind: str) -> None:
    x: Any = {"two steps": STEPS[1:3], "two sequences": [STEPS[1:2], STEPS[2:3]],
              "a step that is missing": np.array([[1.0], [np.nan], [0.0]])}[kind]  # fmt: skip
    fit = fitted(1.0, chain_apart(missing="marginalise"), x)
    assert abs(fit.log_evidence - told_apart(x)) > 1e-6
    if kind != "a step that is missing":  # three factors, so that only most of the error is gone
        assert fit.corrected_log_evidence == pytest.approx(told_apart(x), abs=1e-8)
    assert abs(fit.corrected_log_evidence - told_apart(x)) < 0.2 * abs(fit.log_evidence - told_apart(x))


@pytest.mark.slow
def test_the_correction_helps_on_a_chain() -> None:
    exact, fit = told_apart(STEPS), fitted(1.0, chain_apart(), STEPS)
    assert abs(fit.corrected_log_evidence - exact) < 0.5 * abs(fit.log_evidence - exact)


def test_no_evidence_without_convergence() -> None:
    fit = tp.fit(chain(), STEPS, tp.EP(max_passes=2), seed=1, progress=False)
    assert fit.log_evidence is None and not fit.converged and "no restart converged" in " ".join(fit.notes)
