"""Other units and another origin change the evidence by their Jacobian, and nothing else."""

import numpy as np
import pytest

import temperance as tp

RNG = np.random.default_rng(0)
N = 60
X = np.round((RNG.normal(size=(N, 2)) * [1.0, 0.5] + 4.0 * RNG.integers(0, 2, (N, 1)) * [1, -1]) * 2**20) / 2**20
Y = X @ [1.0, -2.0] + 0.5 + 0.3 * RNG.normal(size=N)
VB = tp.VB(max_iter=100, restarts=2)
# name → (model, whether a column may have a unit of its own, whether it may have another origin)
MODELS = {
    "full": (lambda: tp.GaussianMixture(2), True, True),
    "diagonal": (lambda: tp.GaussianMixture(2, covariance="diag"), True, True),
    "spherical": (lambda: tp.GaussianMixture(2, covariance="spherical"), False, True),
    "Student": (lambda: tp.StudentMixture(2), True, True),
    "process": (lambda: tp.DirichletProcessMixture(3), True, True),
    "states": (lambda: tp.HMM(2), True, True),
    "factor analysis": (lambda: tp.FactorAnalysis(1), True, True),
    "principal components": (lambda: tp.FactorAnalysis(1, noise="isotropic"), False, True),
    "factorial": (lambda: tp.FactorialMixture(2), False, False),
    "state space": (lambda: tp.StateSpace(1), True, True),
}
QUICK = ("full", "factor analysis", "factorial")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
@pytest.mark.parametrize("unit", [1e8, 1e-8])
def test_units(name, unit):
    make, apart, shifts = MODELS[name]
    scale = np.array([unit, 1.0]) if apart else np.array([unit, unit])
    plain, moved = (tp.fit(make(), x, VB, seed=0) for x in (X, X * scale))
    jacobian = N * np.log(scale).sum()
    assert moved.log_evidence + jacobian == pytest.approx(plain.log_evidence, abs=1e-6)
    if shifts:  # X is a multiple of 2⁻²⁰, so that 1e9 is added without rounding but for what both lose
        far = X + np.array([1e9, 0.0])
        near, away = (tp.fit(make(), x, VB, seed=0) for x in (far - np.array([1e9, 0.0]), far))
        assert away.log_evidence == pytest.approx(near.log_evidence, abs=1e-5)


@pytest.mark.parametrize("unit", [1e8, 1e-8])
@pytest.mark.parametrize("ard", [False, True])
def test_units_of_inputs_and_targets(unit, ard):
    plain = tp.fit(tp.LinearRegression(ard=ard), (X, Y), VB, seed=0)
    moved = tp.fit(tp.LinearRegression(ard=ard), (X * [unit, 1.0], Y / unit), VB, seed=0)
    assert moved.log_evidence - N * np.log(unit) == pytest.approx(plain.log_evidence, abs=1e-6)


@pytest.mark.parametrize("unit", [1e50, 1e100, 1e-100])
def test_tempering_in_extreme_units(unit):
    """A precision drawn from the prior has a floor: it is relative to the data's unit."""
    method = tp.ParallelTempering(draws=50, warmup=20, replicas=4, reference="prior")
    model = tp.GaussianMixture(2, covariance="spherical")
    plain, moved = (tp.fit(model, x, method, seed=0) for x in (X, X * unit))
    assert moved.log_evidence + X.size * np.log(unit) == pytest.approx(plain.log_evidence, abs=1e-6)


# ---- every model of real numbers by every method ---------------------------------------------------------------

SHORT = tp.VB(max_iter=20, restarts=2)
METHODS = {
    "VB": SHORT,
    "Annealed": tp.Annealed(SHORT, schedule=[2.0, 1.0]),
    "VT": tp.VT(method=SHORT, temperatures=(1.0, 2.0), length=5),
    "LVT": tp.LVT(method=SHORT, temperatures=(1.0, 2.0), length=5),
    "MessagePassing": tp.MessagePassing(0.5, max_passes=5, restarts=1),
    "EP": tp.EP(max_passes=5, restarts=1),
    "Laplace": tp.Laplace(restarts=2, max_iter=20),
    "SVI": tp.SVI(batch_size=8, steps=10),
    "EM": tp.EM(max_iter=10, restarts=2),
    "ParallelTempering": tp.ParallelTempering(draws=8, warmup=4, replicas=3, reference="prior"),
    "AIS": tp.AIS(particles=4, temperatures=5),
    "SMC": tp.SMC(particles=16, populations=4),
    "ImportanceSampling": tp.ImportanceSampling(draws=64),
}
FURTHER = {
    "holes": lambda: tp.GaussianMixture(2, missing="marginalise"),
    "regression": lambda: tp.LinearRegression(),
    "relevance": lambda: tp.LinearRegression(ard=True),
}
ALL = {name: make for name, (make, *_) in MODELS.items()} | FURTHER
SMALL, TARGETS = X[:30], Y[:30]
FIRST = [
    ("full", "VB"),
    ("diagonal", "VB"),
    ("spherical", "ParallelTempering"),
    ("spherical", "ImportanceSampling"),
    ("relevance", "ParallelTempering"),
    ("relevance", "AIS"),
]


def fitted(name, method, unit):
    data = (SMALL * unit, TARGETS * unit) if name in ("regression", "relevance") else SMALL * unit
    return tp.fit(ALL[name](), data, METHODS[method], seed=0)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(name, method, marks=() if (name, method) in FIRST else pytest.mark.slow)
        for name in ALL
        for method in METHODS
    ],
)
def test_extreme_units(name, method):
    """The default prior follows the data; the evidence changes by the Jacobian to 1e-9 of the bound's largest term."""
    try:
        plain = fitted(name, method, 1.0).log_evidence
    except tp.errors.UnsupportedMethod:
        return
    numbers = len(TARGETS) if name in ("regression", "relevance") else SMALL.size
    powers = []
    for unit in (1e10, 1e-10, 1e100, 1e-100):
        moved = fitted(name, method, unit).log_evidence
        if plain is None:
            assert moved is None
            continue
        jacobian = numbers * np.log(unit)
        powers.append((moved + jacobian - plain) / np.log(unit))
        if method != "EM":
            assert moved + jacobian == pytest.approx(plain, abs=1e-9 * max(abs(plain), abs(jacobian)))
    if method == "EM" and powers:  # the density of the parameters, which have units, too: the same whole power in all
        assert powers == pytest.approx([round(powers[0])] * 4, abs=1e-6)
