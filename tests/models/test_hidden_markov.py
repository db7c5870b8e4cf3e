"""Hidden Markov models against enumeration of every path, and against published and other programs' numbers."""

import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import temperance as tp
from temperance.models import Data, Model, Posterior, Powers, Way
from temperance.models._derive import derived_walk
from temperance.models._model import means
from tests.exact import marginals
from tests.exact.paths import log_evidence

WISHART = {"mean": [0.3, -0.2], "pseudo_count": 0.5, "dof": 4.0, "scatter": [[1.0, 0.2], [0.2, 0.8]]}
INITIAL, TRANSITIONS = np.array([0.7, 1.8]), np.array([[2.0, 0.6], [0.9, 1.4]])


def sequences(seed: int = 0, lengths: tuple[int, ...] = (5, 1, 3)) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 2)) + 3.0 * rng.integers(2, size=(n, 1)) for n in lengths]


def gaussian(k: int = 2, **options: Any) -> tp.HMM:
    given = {"concentration": TRANSITIONS, "initial_concentration": INITIAL} if k == 2 else {}
    return tp.HMM(k, prior=tp.NormalWishart(**WISHART), **given | options)


@eqx.filter_jit
def start(model: tp.HMM, data: Data) -> Posterior:
    return model.initial(jax.random.key(0), data)


@eqx.filter_jit
def bounds(model: Model, start: Posterior, data: Data) -> Any:
    return jax.lax.scan(lambda q, _: model.sweep(q, data), start, None, length=20)[1]


@pytest.mark.parametrize("engine", ["device", "host"])
def test_bound_rises_and_stays_below_the_evidence(engine: str) -> None:
    x = sequences()
    exact = log_evidence(x, lambda rows: marginals.gaussian(rows, **WISHART), INITIAL, TRANSITIONS)
    model, data = gaussian(engine=engine).prepare(x)
    found = np.asarray(bounds(model, start(model, data), data))
    assert (np.diff(found) >= -1e-10).all()
    assert found[0] + 0.01 < found[-1] < exact
    assert exact - found[-1] < 3.0  # the labels alone are worth log 2


def test_one_state_is_exact() -> None:
    x = sequences()
    model, data = gaussian(1).prepare(x)
    exact = marginals.gaussian(np.concatenate(x), **WISHART)
    found = bounds(model, Posterior(dict(model.prior), {}), data)
    np.testing.assert_allclose(found[1:], exact, rtol=0, atol=1e-9)


def test_separate_states_miss_only_their_labels() -> None:
    """Where the path is certain q is exact but for its labels: the bound misses log K!, and nothing else."""
    x = [np.where(np.arange(len(part))[:, None] % 3 == 0, 40.0, -40.0) + part for part in sequences()]
    prior = {"mean": [0.0, 0.0], "pseudo_count": 0.01, "dof": 30.0, "scatter": 30.0 * np.eye(2)}
    model = tp.HMM(2, prior=tp.NormalWishart(**prior), concentration=0.8, sticky=0.5)
    transitions = 0.8 + 0.5 * np.eye(2)
    exact = log_evidence(x, lambda rows: marginals.gaussian(rows, **prior), np.ones(2), transitions)
    completed, data = model.prepare(x)
    assert exact - float(bounds(completed, start(completed, data), data)[-1]) == pytest.approx(np.log(2), abs=1e-6)


def rows(kind: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    if kind in ("gaussian", "diagonal", "spherical"):
        return rng.normal(size=(n, 2)) + 3.0 * rng.integers(2, size=(n, 1))
    return rng.integers(2, size=(n, 2)).astype(float) if kind == "bernoulli" else rng.poisson(3.0, size=(n, 2)) + 0.0


@pytest.mark.parametrize(
    ("kind", "holes"),
    [
        pytest.param("gaussian", False, marks=pytest.mark.slow),
        pytest.param("gaussian", True, marks=pytest.mark.slow),
        ("diagonal", True),
        pytest.param("spherical", True, marks=pytest.mark.slow),
        pytest.param("poisson", True, marks=pytest.mark.slow),
        pytest.param("bernoulli", True, marks=pytest.mark.slow),
        pytest.param("categorical", False, marks=pytest.mark.slow),
    ],
)
def test_closed_walk_equals_the_derivative(kind: str, holes: bool) -> None:
    """At both powers, with whole steps and single columns missing, over several blocks of steps."""
    x = rows(kind, 11)
    if holes:
        x[3], x[7, 0] = np.nan, np.nan
    model = tp.HMM(3, kind, missing="marginalise" if holes else None)
    model, data = model.prepare([x[:6], x[6:]], [2.0, 0.5])
    steps = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf[-1:]]), (data.values.x, data.values.starts))
    blocks = eqx.tree_at(lambda v: (v.x, v.starts), data.values, steps)
    blocks = eqx.tree_at(lambda v: v.starts, blocks, blocks.starts.at[-1].set(1))
    blocks = type(blocks)(blocks.x, blocks.starts, blocks.offsets, blocks.lengths, blocks.longest, blocks=3)
    padded = Data(blocks, jnp.append(data.weights, 0.0), data.size)
    m = eqx.filter_jit(lambda q: means(q.blocks))(start(model, data))
    powers = Powers(0.3, 0.7)
    derived = eqx.filter_jit(derived_walk)(model, m, data, Way(powers))
    closed = eqx.filter_jit(model.walk)(m, padded, Way(powers))
    assert float(closed.value) == pytest.approx(float(derived.value), rel=1e-12)
    for name in m:
        for here, there in zip(*(jax.tree.leaves(terms.messages[name]) for terms in (closed, derived)), strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-11)


def test_missing_steps_are_bridged() -> None:
    """A step without any value adds nothing but its transition: two of them are one transition squared."""
    x = np.array([0.2, np.nan, 1.7])[:, None]
    prior = tp.NormalGamma(mean=0.0, pseudo_count=1.0, dof=4.0, scatter=2.0)
    model = tp.HMM(2, "diagonal", prior=prior, missing="marginalise")
    model, data = model.prepare(x)
    draws = eqx.filter_jit(model.sample_prior)(jax.random.key(0))
    found = float(eqx.filter_jit(model.log_likelihood)(draws, data))
    user = model.units.draws_to_user(draws)
    initial, transition = (np.asarray(draws[name]) for name in ("initial", "transitions"))
    mean, precision = (np.asarray(leaf)[:, 0] for leaf in jax.tree.leaves(user["emissions"]))
    density = norm(mean, precision**-0.5).pdf(x[[0, 2]])
    assert found == pytest.approx(np.log(initial * density[0] @ transition @ transition @ density[1]), rel=1e-10)


@pytest.mark.skipif("TEMPERANCE_DATA" not in os.environ, reason="the earthquakes are not bundled")
def test_published_likelihood_of_the_earthquakes() -> None:
    counts = np.loadtxt(os.path.join(os.environ["TEMPERANCE_DATA"], "earthquakes.csv"), delimiter=",", skiprows=1)[:, 1]
    model, data = tp.HMM(2, "poisson").prepare(counts)
    draws = {
        "initial": jnp.array([0.6608, 0.3392]),
        "transitions": jnp.array([[0.934, 0.066], [0.1285, 0.8715]]),
        "emissions": jnp.array([[15.472], [26.125]]),
    }
    assert float(eqx.filter_jit(model.log_likelihood)(draws, data)) == pytest.approx(-342.3181, abs=5e-5)


def test_every_iteration_equals_that_of_hmmlearn() -> None:
    """From the same start; its bound leaves out (ND/2) log 2π."""
    from hmmlearn import vhmm

    x = sequences(3, (40, 25, 60))
    rows, lengths = np.concatenate(x), [len(part) for part in x]
    other = vhmm.VariationalGaussianHMM(3, covariance_type="full", random_state=0, implementation="log")
    other._init(rows, lengths)
    other._check()
    prior = tp.NormalWishart(rows.mean(axis=0), 1.0, 2.0, 1e-3 * np.eye(2))
    third = 1.0 / 3.0
    model = tp.HMM(3, prior=prior, concentration=third, initial_concentration=third)
    model, data = model.prepare(x)
    shift = np.asarray(model.shift)

    def posterior() -> Posterior:
        emissions = tp.NormalWishart(
            other.means_posterior_ - shift, other.beta_posterior_, other.dof_posterior_, other.scale_posterior_
        )
        blocks = (other.startprob_posterior_, other.transmat_posterior_)
        initial, transitions = map(tp.Dirichlet, blocks)
        return Posterior({"initial": initial, "transitions": transitions, "emissions": emissions}, {})

    q, sweep = posterior(), eqx.filter_jit(lambda q: model.sweep(q, data))
    for _ in range(6):
        statistics, log_sum = other._do_estep(rows, lengths)
        bound = other._compute_lower_bound(log_sum)
        other._do_mstep(statistics)
        q, ours = sweep(q)
        assert float(ours) + rows.size / 2 * np.log(2 * np.pi) == pytest.approx(bound, rel=1e-9)
        for name, block in posterior().blocks.items():
            for here, there in zip(*map(jax.tree.leaves, (q.blocks[name].natural, block.natural)), strict=True):
                np.testing.assert_allclose(here, there, rtol=1e-7, atol=1e-7)
