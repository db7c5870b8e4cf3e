"""Sixty random chains (K = 2, T = 8): message passing against the sum over all 256 paths, and against VB's bound.

Transitions have the prior 4 on the diagonal and 1 beside it, the emissions of the two states have priors centred two
standard deviations apart. Data are drawn from the prior; the seeds are 0 to 19 for each kind of emission.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import temperance as tp
from tests.exact import marginals, paths
from tests.tiers import with_slow

K, T, SEEDS = 2, 8, 20
MOVES = np.array([[4.0, 1.0], [1.0, 4.0]])
CENTRES = {
    "gaussian": [-1.0, 1.0],  # standard deviation 1, as has the noise
    "poisson": [(4.0, 2.0), (16.0, 4.0)],
    "categorical": [(3.0, 1.5, 1.0), (1.0, 1.5, 3.0)],
}


def emission(kind: str, centres: Any) -> tuple[Any, Any]:
    if kind == "gaussian":
        return tp.KnownCovarianceGaussian([[1.0]]), tp.Normal(np.reshape(centres, (-1, 1)), np.eye(1))
    if kind == "poisson":
        return "poisson", tp.Gamma(*np.array(centres).T[:, :, None])
    return "categorical", tp.Dirichlet(np.array(centres)[:, None])


def model(kind: str, centres: Any) -> tp.HMM:
    likelihood, prior = emission(kind, centres)
    return tp.HMM(K, likelihood, prior=prior, concentration=MOVES)


def marginal(kind: str, centre: Any, x: np.ndarray) -> float:
    if kind == "gaussian":
        return marginals.known(x, [[1.0]], [centre], [[1.0]])
    return marginals.poisson(x, *centre) if kind == "poisson" else marginals.categorical(x, centre)


def draw(kind: str, centres: Any, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    moves = np.stack([rng.dirichlet(row) for row in MOVES])
    states = [rng.choice(K, p=rng.dirichlet(np.ones(K)))]
    for _ in range(T - 1):
        states.append(rng.choice(K, p=moves[states[-1]]))
    if kind == "gaussian":
        means = rng.normal(centres, 1.0)
        return rng.normal(means[states], 1.0)[:, None]
    if kind == "poisson":
        rates = np.array([rng.gamma(a, 1 / b) for a, b in centres])
        return rng.poisson(rates[states]).astype(float)[:, None]
    levels = np.stack([rng.dirichlet(row) for row in centres])
    return np.array([rng.choice(3, p=levels[z]) for z in states], float)[:, None]


class Sums(NamedTuple):
    log_evidence: float
    log_ahead: np.ndarray  # log p(next step | all steps) on GRIDS


GRIDS = {"gaussian": np.linspace(-9, 9, 73), "poisson": np.arange(40.0), "categorical": np.arange(3.0)}
WIDTHS = {"gaussian": 0.25, "poisson": 1.0, "categorical": 1.0}


def sums(kind: str, centres: Any, x: np.ndarray) -> Sums:
    """Every path: Dirichlet-multinomial terms of its transitions, and the marginal likelihood of each state's steps."""
    n, every = len(x), paths.every_path(len(x), K)
    subsets, places = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1, 2 ** np.arange(n)
    entered = np.zeros((len(every), K))
    logs, ahead = np.full(len(every), -np.log(K)), np.full((len(every), K, len(GRIDS[kind])), -np.inf)
    for z, (centre, row) in enumerate(zip(centres, MOVES, strict=True)):
        table = np.array([marginal(kind, centre, x[chosen]) for chosen in subsets])
        more = np.stack([[marginal(kind, centre, np.append(x[chosen], [[new]], axis=0)) for new in GRIDS[kind]]
                         for chosen in subsets])  # fmt: skip
        mine = (every == z) @ places
        logs += table[mine]
        ahead[:, z] = (more - table[:, None])[mine]
        seen = np.stack([((every[:, :-1] == z) & (every[:, 1:] == w)).sum(axis=1) for w in range(K)], axis=1)
        logs += (gammaln(row + seen) - gammaln(row)).sum(axis=1)
        logs += gammaln(row.sum()) - gammaln(row.sum() + seen.sum(axis=1))
        here = every[:, -1] == z
        entered[here] = np.log((row + seen)[here] / (row + seen)[here].sum(axis=1, keepdims=True))
    total = logsumexp(logs)
    return Sums(float(total), logsumexp((logs - total)[:, None, None] + entered[:, :, None] + ahead, axis=(0, 1)))


class Errors(NamedTuple):
    """How far each approximation is above the exact value; NaN where it did not converge."""

    bound: float
    ep: float
    half: float
    corrected: float
    predictive: tuple[float, float, float]  # KL(exact ‖ approximation) of the next step: VB, EP and α = ½


def fitted(method: Any, model: tp.HMM, x: np.ndarray) -> tp.Fit:
    return tp.fit(model, x, method, seed=1, progress=False)


def divergence(kind: str, fit: tp.Fit, x: np.ndarray, exact: np.ndarray) -> float:
    longer = [np.append(x, [[new]], axis=0) for new in GRIDS[kind]]
    ours = np.asarray(fit.log_predictive(longer)).reshape(len(longer), -1)[:, -1]
    return float(WIDTHS[kind] * np.sum(np.exp(exact) * (exact - ours)))


@cache
def measured() -> dict[str, list[Errors]]:
    found: dict[str, list[Errors]] = {kind: [] for kind in CENTRES}
    for kind, centres in CENTRES.items():
        ours = model(kind, centres)
        for seed in range(SEEDS):
            x = draw(kind, centres, seed)
            exact = sums(kind, centres, x)
            methods = tp.VB(restarts=4, tol=1e-10, max_iter=2000), tp.EP(restarts=4), tp.MessagePassing(0.5, restarts=4)
            fits = [fitted(method, ours, x) for method in methods]
            gaps = [np.nan if fit.log_evidence is None else fit.log_evidence - exact.log_evidence for fit in fits]
            corrected = fits[1].corrected_log_evidence - exact.log_evidence if fits[1].converged else np.nan
            apart = tuple(divergence(kind, fit, x, exact.log_ahead) for fit in fits)
            found[kind].append(Errors(*gaps, corrected, apart))  # type: ignore[arg-type]
    return found


def column(name: str) -> np.ndarray:
    return np.array([getattr(errors, name) for each in measured().values() for errors in each])


@pytest.mark.slow
def test_expectation_propagation() -> None:
    error, bound = np.abs(column("ep")), np.abs(column("bound"))
    assert np.isfinite(error).mean() >= 0.95
    assert (error < bound).mean() >= 0.95
    assert np.nanmedian(error) <= 0.15 and (error < 0.25).mean() >= 0.75


@pytest.mark.slow
def test_the_second_order_helps() -> None:
    assert np.nanmedian(np.abs(column("corrected"))) < 0.5 * np.nanmedian(np.abs(column("ep")))


@pytest.mark.slow
def test_alpha_one_half() -> None:
    assert (column("half") < 0).all()
    vb, _, half = column("predictive").T
    assert (half < vb).mean() >= 0.75


@pytest.mark.parametrize("kind", with_slow(CENTRES, "gaussian", "categorical"))
def test_the_density_of_the_next_step_sums_to_one(kind: str) -> None:
    x = draw(kind, CENTRES[kind], 0)
    values = {"gaussian": np.linspace(-30, 30, 481), "poisson": np.arange(400.0), "categorical": np.arange(3.0)}[kind]
    longer = [np.append(x, [[new]], axis=0) for new in values]
    for method in (tp.VB(), tp.EP(), tp.MessagePassing(0.5)):
        fit = fitted(method, model(kind, CENTRES[kind]), x)
        density = np.exp(np.reshape(fit.log_predictive(longer), (len(longer), -1))[:, -1])
        assert (values[1] - values[0]) * density.sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CENTRES)
def test_symmetric_priors(kind: str) -> None:
    """Priors that treat the states alike: nearly all of several starts end at a fixed point."""
    same = [CENTRES[kind][0]] * K
    ends = [fitted(tp.EP(restarts=4), model(kind, same), draw(kind, CENTRES[kind], seed)) for seed in range(10)]
    assert np.mean([fit.details["restarts_converged"] for fit in ends]) >= 0.9
    kinds = {fit.details["labels"] for fit in ends}
    assert kinds <= {"symmetric", "broken", "between"}
    for fit, seed in zip(ends, range(10), strict=True):
        exact = sums(kind, same, draw(kind, CENTRES[kind], seed)).log_evidence
        assert fit.log_evidence is None or abs(fit.log_evidence + fit.label_correction - exact) < 1.0
