"""Hidden Markov models under every method that fits them, and what a fit answers."""

import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import temperance as tp
from temperance.errors import InvalidData, InvalidParameter, UnsupportedMethod
from temperance.models import Data
from temperance.models._model import means
from tests.exact import marginals
from tests.exact.paths import log_evidence, sum_paths

TINY = np.array([[0.0, 1], [1, 1], [0, 0], [1, 1], [1, 0], [0, 0]])
PRIOR = {"a": 1.3, "b": 0.8}


def tiny(**options: Any) -> tp.HMM:
    return tp.HMM(2, "bernoulli", prior=tp.Beta(**PRIOR), concentration=0.9, sticky=0.7, **options)


def exact() -> float:
    transitions = 0.9 + 0.7 * np.eye(2)
    return log_evidence([TINY], lambda rows: marginals.bernoulli(rows, **PRIOR), np.ones(2), transitions)


def switching(steps: int, seed: int, stay: float = 0.9) -> np.ndarray:
    """Two states far apart."""
    rng = np.random.default_rng(seed)
    path = np.cumsum(rng.uniform(size=steps) > stay) % 2
    return (6.0 * path + rng.normal(size=steps))[:, None]


@pytest.fixture(scope="module")
def fit() -> tp.Fit:
    return tp.fit(tp.HMM(2, "diagonal"), [switching(20, 0), switching(9, 1)], tp.VB(tol=1e-9))


# ---- evidence -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_parallel_tempering_finds_the_evidence() -> None:
    found = tp.fit(tiny(), TINY, tp.ParallelTempering(draws=700, warmup=100, replicas=5), seed=0)
    assert found.standard_error is not None
    assert abs(found.log_evidence - exact()) < 4 * found.standard_error + 0.02
    assert found.bracket is not None and found.bracket[0] <= exact() <= found.bracket[1]


@pytest.mark.slow
def test_annealed_importance_sampling_finds_the_evidence() -> None:
    found = tp.fit(tiny(), TINY, tp.AIS(particles=400, temperatures=60), seed=0)
    assert found.standard_error is not None
    assert abs(found.log_evidence - exact()) < 4 * found.standard_error + 0.02
    assert found.bracket is not None and found.bracket[0] <= exact() <= found.bracket[1]


@pytest.mark.slow
@pytest.mark.parametrize("method", [tp.Annealed(), tp.EM(), tp.Laplace(), tp.SVI(steps=30), tp.ImportanceSampling()])
def test_methods_that_fit(method: Any) -> None:
    x = switching(40, 3)
    model = tp.HMM(2, "diagonal", concentration=2.0)
    found = tp.fit(model, x, method, seed=1)
    states = np.asarray(found.decode())
    truth = (x[:, 0] > 3).astype(int)
    assert max((states == truth).mean(), (states != truth).mean()) > 0.95


@pytest.mark.parametrize("method", [tp.LVT(), tp.VB(moves=True), tp.EP(double_loop=True)])
def test_methods_that_do_not_fit_say_so(method: Any) -> None:
    with pytest.raises(UnsupportedMethod, match="HMM"):
        tp.fit(tp.HMM(2), switching(12, 0), method)


@pytest.mark.slow
def test_comparison_counts_the_labels() -> None:
    """With the copies of its labels the bound of two separate states is all but exact."""
    x = switching(8, 5, stay=0.6)
    x = x + np.where(x > 3, 120.0, 0.0)
    prior = {"mean": 60.0, "pseudo_count": 0.01, "dof": 20.0, "scatter": 20.0}
    model = tp.HMM(2, "diagonal", prior=tp.NormalGamma(**prior))
    fit = tp.fit(model, x, tp.VB(tol=1e-10))
    found = log_evidence([x], lambda rows: marginals.diagonal(rows, **prior), np.ones(2), np.ones((2, 2)))
    assert fit.log_evidence + fit.label_correction == pytest.approx(found, abs=1e-4)


# ---- minibatches --------------------------------------------------------------------------------------------


def messages(model: tp.HMM, m: Any, data: Data) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter_jit(model.walk)(m, data).messages)]


@pytest.mark.slow
def test_minibatches_of_sequences_add_up_to_all() -> None:
    x = [switching(n, n) for n in (7, 3, 12, 5)]
    model, data = tp.HMM(2, "diagonal").prepare(x)
    assert model.rows.parts(data) == 4
    m = means(eqx.filter_jit(model.initial)(jax.random.key(0), data).blocks)
    whole = messages(model, m, data)
    # Of two sequences, weighted to stand for four: halves of their sum.
    pick = eqx.filter_jit(lambda chosen: model.rows.minibatch(data, chosen, jnp.asarray(float(data.size)), chosen))
    halves = [messages(model, m, pick(jnp.asarray(chosen))) for chosen in ([0, 3], [2, 1])]
    for all_, one, other in zip(whole, *halves, strict=True):
        np.testing.assert_allclose(0.5 * (one + other), all_, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_windows_with_burn_in_add_up_to_all() -> None:
    """Cut anywhere: the context on both sides makes up for it, and without one it does not."""
    x = switching(90, 2)
    errors = []
    for burn_in in (0, 12):
        model, data = tp.HMM(2, "diagonal", window=20, burn_in=burn_in).prepare([x[:50], x[50:]])
        assert model.rows.parts(data) == 5
        m = means(eqx.filter_jit(model.initial)(jax.random.key(0), data).blocks)
        whole = messages(model, m, data)
        pick = eqx.filter_jit(
            lambda chosen, model=model, data=data: model.rows.minibatch(data, chosen, jnp.asarray(90.0), chosen)
        )
        parts = [messages(model, m, pick(jnp.asarray([number]))) for number in range(5)]
        sums = [sum(leaves) / 5 for leaves in zip(*parts, strict=True)]
        errors.append(max(np.abs(found - wanted).max() for found, wanted in zip(sums, whole, strict=True)))
    assert errors[1] < 1e-6 < 1e-2 < errors[0]


@pytest.mark.slow
def test_stochastic_steps_over_windows_reach_the_bound() -> None:
    x = switching(3000, 4)
    model = tp.HMM(3, "diagonal", window=100, burn_in=10)
    full = tp.fit(model, x, tp.VB(restarts=3), seed=0)
    found = tp.fit(model, x, tp.SVI(batch_size=4, passes=30, restarts=3), seed=0)
    assert abs(found.log_evidence - full.log_evidence) < 2e-3 * abs(full.log_evidence)


@pytest.mark.slow
def test_a_stream_of_one_long_sequence(tmp_path: Path) -> None:
    x = switching(50_000, 6)
    np.save(tmp_path / "x.npy", x)
    stream = tp.Stream(tmp_path / "x.npy", piece_rows=8192)
    found = tp.fit(tp.HMM(2, "diagonal", window=200, burn_in=20), stream, tp.SVI(batch_size=8, passes=3), seed=0)
    stay = np.exp(np.asarray(found.posterior["transitions"].mean().log)).diagonal()
    np.testing.assert_allclose(stay, 0.9, atol=0.02)
    centres = np.sort(np.concatenate([np.ravel(value) for value in found.table()["mean"]]))
    np.testing.assert_allclose(centres, [0.0, 6.0], atol=0.1)


# ---- answers ------------------------------------------------------------------------------------------------


def test_states_of_the_fitted_data(fit: tp.Fit) -> None:
    """Against enumeration with the same expected logarithms."""
    smooth, filtered, path = fit.smooth(), fit.filter(), fit.decode()
    assert [part.shape for part in smooth] == [(20, 2), (9, 2)]
    m = means(fit.state.blocks)
    x = fit.model.new_rows([switching(9, 1)])
    chain = fit.model.chain(m, x)
    truth = sum_paths(*(np.asarray(part) for part in chain[:3]))
    np.testing.assert_allclose(smooth[1], truth.states, atol=1e-9)
    np.testing.assert_array_equal(path[1], truth.best)
    short = sum_paths(*(np.asarray(part) for part in (chain.initial, chain.transition, chain.likelihood[:4])))
    np.testing.assert_allclose(filtered[1][3], short.states[3], atol=1e-9)
    np.testing.assert_allclose(fit.smooth(switching(9, 1)), smooth[1], atol=1e-12)


def test_predictive_density_is_normalised(fit: tp.Fit) -> None:
    """One step ahead, after two steps that were seen."""
    grid = np.linspace(-300, 300, 6001)
    before = np.array([[0.3], [6.2]])
    rows = [np.vstack([before, [[value]]]) for value in grid]
    log_density = fit.log_predictive(rows).reshape(-1, 3)[:, 2]
    assert np.trapezoid(np.exp(log_density), grid) == pytest.approx(1.0, abs=1e-3)
    # It knows where it was.
    other = fit.log_predictive([np.vstack([before[::-1], [[value]]]) for value in (6.2, 0.3)]).reshape(-1, 3)[:, 2]
    same = [log_density[np.argmin(abs(grid - value))] for value in (6.2, 0.3)]
    assert same[0] > other[0] + 0.5 and same[1] < other[1] - 0.5


@pytest.mark.slow
def test_forecast(fit: tp.Fit) -> None:
    """States by powers of the expected transitions, but for the uncertainty of these; far ahead they forget."""
    last = np.array([[6.0], [6.1], [5.8]])
    found = fit.forecast(30, last, draws=4000)
    assert found.mean.shape == found.variance.shape == (30, 1) and found.draws.shape == (4000, 30, 1)
    high = int(np.argmax(fit.filter(last)[-1]))
    transitions = fit.posterior["transitions"].concentration
    expected = np.asarray(transitions / transitions.sum(axis=1, keepdims=True))
    assert found.states[0, high] == pytest.approx(expected[high, high], abs=0.03)
    assert found.states[0, high] > found.states[-1, high] + 0.1
    low, up = found.interval(0.8)
    assert (low <= found.mean).all() and (found.mean <= up).all()
    with pytest.raises(InvalidData, match="one sequence, but there are 2"):
        fit.forecast(3)


def test_saved_and_sampled(fit: tp.Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit")
    again = tp.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.decode()[0], fit.decode()[0])
    assert fit.sample(0, 5).shape == (5, 1)
    table = fit.table()
    assert sum(table["steps"]) == pytest.approx(29) and min(table["duration"]) > 2


@pytest.mark.slow
def test_unused_states_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    found = tp.fit(tp.HMM(4, "diagonal", concentration=0.1), switching(60, 1), tp.VB(restarts=3))
    print(found.summary())
    used = found.model.occupied(found.state, found.data)
    assert 2 <= used == len(found.table()["state"]) < 4
    assert f"{used} of 4 states are used" in capsys.readouterr().out


@pytest.mark.slow
def test_plots(fit: tp.Fit) -> None:
    """The ribbon's bars have the heights of the smoothed probabilities."""
    axes = tp.plot.states(fit, sequence=1)
    shares = fit.smooth()[1]
    bars = [patch.get_data() for patch in axes.patches]
    heights = sum(bar.values - bar.baseline for bar in bars)
    np.testing.assert_allclose(heights, heights[0])
    found = np.stack([(bar.values - bar.baseline) / heights for bar in bars], axis=1)
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(shares, axis=1), atol=1e-9)
    with pytest.raises(InvalidParameter, match="sequence must be one of 0 to 1"):
        tp.plot.states(fit, sequence=2)


@pytest.mark.slow
def test_fan_of_forecasts() -> None:
    one = tp.fit(tp.HMM(2, "diagonal"), switching(20, 0), tp.VB())
    assert len(tp.plot.forecast(one, 5, draws=50).collections) == 2


# ---- input --------------------------------------------------------------------------------------------------


def test_forms_of_data() -> None:
    x = np.arange(12.0)
    model = tp.HMM(2)
    lengths = lambda data: np.asarray(model.prepare(data)[1].values.lengths).tolist()  # noqa: E731
    assert lengths(x) == lengths(x[:, None]) == [12]
    assert lengths([x[:5], x[5:]]) == lengths((x[:5, None], x[5:, None])) == [5, 7]
    assert lengths(x.reshape(3, 2, 2)) == [2, 2, 2]
    assert lengths([[1.0, 2.0], [3.0, 5.0], [2.0, 1.0]]) == [3]
    assert lengths(x.tolist()) == [12]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_states": 0}, "n_states must be a whole number"),
        ({"sticky": -1.0}, "sticky must be a finite number"),
        ({"concentration": [1.0, 2.0]}, r"concentration must be one number or an array of shape \(2, 2\)"),
        ({"burn_in": -1}, "burn_in must be a whole number"),
        ({"engine": "gpu"}, "engine must be one of"),
    ],
)
def test_bad_parameters(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        tp.HMM(**{"n_states": 2} | options)


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (
            lambda: tp.HMM(2).prepare([np.ones((3, 1)), np.ones((3, 2))]),
            InvalidData,
            "sequence 0 has 1 and sequence 1 has 2",
        ),
        (
            lambda: tp.HMM(2).prepare([np.ones(3), np.array([1.0, np.nan])]),
            InvalidData,
            "sequence 1 of data has 1 missing",
        ),
        (
            lambda: tp.HMM(2).prepare([np.ones(3), np.ones(4)], np.ones(7)),
            InvalidData,
            "weights must be one number for each of the 2 sequences",
        ),
        (lambda: tp.fit(tp.HMM(2), switching(30, 0), tp.SVI(held_out=0.2)), InvalidParameter, "held_out must be data"),
    ],
)
def test_bad_data(attempt: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        attempt()


@pytest.mark.skipif("TEMPERANCE_DATA" not in os.environ, reason="the earthquakes are not bundled")
@pytest.mark.slow
def test_rates_of_the_earthquakes() -> None:
    """Zucchini and MacDonald's rates lie inside the posterior's."""
    counts = np.loadtxt(os.path.join(os.environ["TEMPERANCE_DATA"], "earthquakes.csv"), delimiter=",", skiprows=1)[:, 1]
    found = tp.fit(tp.HMM(2, "poisson"), counts, tp.VB(restarts=5))
    rates = np.sort(np.ravel(found.table()["mean"]))
    np.testing.assert_allclose(rates, [15.472, 26.125], atol=1.0)
