"""Annealing: plain methods at T = 1, a bound that rises at fixed T, energies and bounds against sums written out."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, logsumexp, softmax

import temperance as tp
from temperance.errors import InvalidParameter
from temperance.inference.thermostats import make_schedule, spaced
from temperance.inference.variational.annealed import Annealed
from temperance.inference.variational.hot import Stage
from temperance.models import Posterior, Powers
from temperance.models._model import means
from tests.inference.steps import walk_with_energy
from tests.tiers import with_slow

rng = np.random.default_rng(0)
X = np.concatenate([rng.normal(-3, 1, (30, 1)), rng.normal(3, 1, (30, 1))])
Z = rng.integers(0, 2, (40, 3)) @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(40, 4))


def mixture() -> tp.Mixture:
    pair = tp.KnownCovarianceGaussian([[1.0]])
    return tp.Mixture(2, pair, prior=tp.Normal([0.0], [[100.0]]), init="random")


MODELS: dict[str, Any] = {
    "mixture": (mixture, X),
    "factorial": (lambda: tp.FactorialMixture(3, noise=0.1, probability=0.5), Z),
}
models = pytest.mark.parametrize("name", MODELS)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def same(one: tp.Fit, other: tp.Fit) -> None:
    for ours, theirs in zip(leaves(one.state), leaves(other.state), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert one.log_evidence == other.log_evidence
    assert one.converged == other.converged


@cache
def annealed(name: str) -> tp.Fit:
    """Twelve sweeps at T = 3, twelve at T = 1.5."""
    model, x = MODELS[name]
    return tp.fit(model(), x, Annealed(tp.VB(restarts=3), [3.0] * 12 + [1.5] * 12))


@pytest.mark.parametrize("name", with_slow(MODELS, "factorial"))
def test_temperature_one_is_plain_vb_bit_for_bit(name: str) -> None:
    model, x = MODELS[name]
    plain = tp.fit(model(), x, tp.VB(restarts=3))
    ones = tp.fit(model(), x, Annealed(tp.VB(restarts=3), [1.0] * 5))
    same(ones, plain)
    np.testing.assert_array_equal(ones.history["elbo"], plain.history["elbo"])
    np.testing.assert_array_equal(ones.history["annealed_elbo"], plain.history["elbo"])


def test_temperature_one_is_plain_vb_when_the_budget_ends() -> None:
    same(
        tp.fit(mixture(), X, Annealed(tp.VB(restarts=3, max_iter=2), [1.0])),
        tp.fit(mixture(), X, tp.VB(restarts=3, max_iter=2)),
    )


def test_the_budget_is_that_of_the_phase_at_temperature_one() -> None:
    fit = tp.fit(mixture(), X, Annealed(tp.VB(restarts=3, max_iter=2), [3.0] * 12))
    assert fit.history["temperature"].tolist() == [3.0] * 12 + [1.0] * 2 and not fit.converged


def test_the_summary_tells_of_the_temperature(capsys: pytest.CaptureFixture[str]) -> None:
    print(annealed("mixture").summary())
    assert "cooled from T = 3 to 1\n" in capsys.readouterr().out


def test_temperature_one_is_plain_svi_bit_for_bit() -> None:
    method = tp.SVI(batch_size=10, passes=3)
    same(tp.fit(mixture(), X, Annealed(method, [1.0] * 5)), tp.fit(mixture(), X, method))


@models
def test_the_annealed_bound_rises_at_fixed_temperature(name: str) -> None:
    history = annealed(name).history
    np.testing.assert_array_equal(history["temperature"][:24], [3.0] * 12 + [1.5] * 12)
    assert (history["temperature"][24:] == 1).all() and len(history["temperature"]) > 26
    for part in (slice(0, 12), slice(12, 24), slice(24, None)):
        bounds = history["annealed_elbo"][part]
        assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
    assert history["annealed_elbo"][11] > history["annealed_elbo"][0] + 1e-3
    # At T = 1 they are one number, which the compiler works out once for each report: the last bit may differ.
    np.testing.assert_allclose(history["annealed_elbo"][24:], history["elbo"][24:], rtol=4e-16)


def mix(one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: 0.997 * a + 0.003 * b, one, other)


def test_a_sweep_against_sums_written_out() -> None:
    """Bounds and updates of a mixture of known variance at T = 2.5, from E log π, E μ and E μ²."""
    model, data = mixture().prepare(X)
    q = model.initial(jax.random.key(3), data)
    s = 1 / 2.5
    method = Annealed(tp.VB(), [2.5]).complete(model, data)
    cooled = method.arrange(jax.random.key(0), model, data)
    step = jax.jit(lambda stage: method.step(jax.random.key(0), model, stage, cooled))
    fresh, info = step(Stage(q, jnp.asarray(0), (), dict(q.blocks)))
    x = X[:, 0] - X.mean()
    delta = np.asarray(q.blocks["weights"].concentration)  # type: ignore[attr-defined]
    mean = np.asarray(q.blocks["components"].location)[:, 0]  # type: ignore[attr-defined]
    variance = 1 / np.asarray(q.blocks["components"].precision)[:, 0, 0]  # type: ignore[attr-defined]
    prior_mean = -X.mean()  # the prior's, where the data are centred
    logs = digamma(delta) - digamma(delta.sum())
    joint = logs - 0.5 * np.log(2 * np.pi) - 0.5 * ((x[:, None] - mean) ** 2 + variance)
    r = softmax(s * joint, axis=1)
    energy = np.sum(r * joint)
    divergence = q.blocks["weights"].kl(model.prior["weights"]) + jnp.sum(  # type: ignore[arg-type]
        q.blocks["components"].kl(model.prior["components"])  # type: ignore[arg-type]
    )
    bound = logsumexp(s * joint, axis=1).sum() - float(divergence)
    assert float(info["annealed_elbo"]) == pytest.approx(bound, rel=1e-12) and float(info["temperature"]) == 2.5
    cold = energy - np.sum(r * np.log(r)) - float(divergence)  # the bound at T = 1 of the same q
    assert float(info["elbo"]) == pytest.approx(cold, rel=1e-12)
    blocks = fresh.posterior.blocks
    np.testing.assert_allclose(blocks["weights"].concentration, 1 + s * r.sum(axis=0), rtol=1e-12)  # type: ignore
    precision = 1 / 100 + s * r.sum(axis=0)
    np.testing.assert_allclose(blocks["components"].precision[:, 0, 0], precision, rtol=1e-12)  # type: ignore
    linear = prior_mean / 100 + s * r.T @ x
    np.testing.assert_allclose(blocks["components"].location[:, 0], linear / precision, rtol=1e-10)  # type: ignore
    # Where T changes, here to 1, the posterior has 0.3% of the start in it; where it does not, it has none.
    start = model.initial(jax.random.key(4), data).blocks
    mixed = {name: b.with_natural(mix(b.natural, start[name].natural)) for name, b in q.blocks.items()}
    changed, later = (
        step(Stage(q, jnp.asarray(1), (), start)),
        step(Stage(Posterior(mixed, {}), jnp.asarray(2), (), start)),
    )
    assert float(changed[1]["elbo"]) == pytest.approx(float(later[1]["elbo"]), rel=1e-12)
    without = step(Stage(q, jnp.asarray(2), (), start))[1]["elbo"]
    assert float(without) == pytest.approx(float(model.bound(q, data)), rel=1e-12) != float(later[1]["elbo"])


def test_another_schedule_is_no_other_compilation() -> None:
    annealed("mixture")
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    tp.fit(mixture(), X, Annealed(tp.VB(restarts=3, tol=1e-5), "linear", start=4.0, length=17))
    tp.fit(mixture(), X, Annealed(tp.VB(restarts=3), np.geomspace(7, 2, 40)))
    assert not compiled


def test_tables_of_temperatures() -> None:
    np.testing.assert_allclose(spaced("linear", 10.0, 9), np.arange(10, 1, -1))
    np.testing.assert_allclose(spaced("geometric", 8.0, 3), [8, 4, 2])
    schedule = make_schedule(np.array([3.0, 2.0, 1.0]))
    found = [float(schedule.at(jnp.asarray(t))) for t in (0, 1, 2, 3, 300)]
    assert found == [3, 2, 1, 1, 1] and int(schedule.steps) == 2


@pytest.mark.slow
def test_minibatches_cool_from_step_to_step_or_from_pass_to_pass() -> None:
    method = tp.SVI(batch_size=20, passes=6, report=1, elbo=True)  # three steps a pass
    steps = tp.fit(mixture(), X, Annealed(method, "linear", start=4.0, length=2))
    passes = tp.fit(mixture(), X, Annealed(method, "linear", start=4.0, length=2, every="pass"))
    half = tp.fit(mixture(), X, Annealed(method, "geometric", start=8.0))
    np.testing.assert_allclose(steps.history["temperature"][:7], [4, 3.5, 3, 2.5, 2, 1.5, 1])
    np.testing.assert_allclose(passes.history["temperature"][:7], [4, 4, 4, 2.5, 2.5, 2.5, 1])
    np.testing.assert_allclose(half.history["temperature"][[0, 3, 6, 9]], [8, 4, 2, 1])  # half of the passes
    assert {"annealed_elbo", "elbo"} <= set(steps.history)
    # A hot step is not a cold one.
    assert steps.history["elbo"][0] != passes.history["elbo"][3]


@pytest.mark.slow
def test_held_out_data_have_no_say_while_it_is_hot() -> None:
    """They neither end the run nor choose a posterior from before the last phase at T = 1."""
    new = np.random.default_rng(8).normal(np.repeat([-3.0, 3.0], 10), 1.0)[:, None]
    method = tp.SVI(batch_size=10, steps=60, step_size=0.5, report=1, held_out=new, patience=1, tol=10.0)
    plain = tp.fit(mixture(), X, method)
    fit = tp.fit(mixture(), X, Annealed(method, [1.0] * 30 + [1e4] * 12))
    steps, scores = fit.history["step"], fit.history["held_out"]
    assert plain.history["step"][-1] < 42 < steps[-1]
    last = scores[steps > 42].max()
    assert scores[steps <= 42].max() > last + 0.01  # or there would be nothing to resist
    assert np.mean(fit.log_predictive(new)) == pytest.approx(last, rel=1e-9)


def test_a_fit_is_saved_and_read(tmp_path: Any) -> None:
    fit = annealed("mixture")
    fit.save(tmp_path / "fit")
    again = tp.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.history["temperature"], fit.history["temperature"])
    assert again.method == fit.method and len(again.details["temperatures"]) == 24


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": tp.EM()}, "method must be a tp.VB or a tp.SVI, got EM"),
        ({"method": tp.VB(batches=2)}, "must be without batches and without moves"),
        ({"schedule": "slow"}, "schedule must be a row of temperatures or one of 'critical', 'linear', 'geometric'"),
        ({"schedule": [2.0, 0.5]}, "schedule must be finite and at least 1, found 0.5"),
        ({"schedule": []}, "schedule must be a row of numbers"),
        ({"schedule": 3.0}, "schedule must be a row of numbers of at least 1, got 3.0"),
        ({"schedule": [2.0], "start": 3.0}, "start and length are for named schedules"),
        ({"schedule": "linear", "start": 0.5}, "start must be a finite number of at least 1, got 0.5"),
        ({"schedule": "linear", "length": -1}, "length must be a finite number of at least 0, got -1"),
        ({"start": 3.0}, "start is found by the schedule 'critical'"),
        ({"every": "day"}, "every must be 'step' or 'pass', got 'day'"),
    ],
)
def test_mistakes(options: dict, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        Annealed(**options)


@pytest.mark.slow
def test_topic_models_take_hot_steps_on_the_host_as_derived() -> None:
    """Many minibatches at once in the kernel, with a temperature for each, beside one by one by autodiff."""
    counts = np.random.default_rng(5).poisson(0.6, (24, 12))
    counts[:, 0] += 1
    method = Annealed(tp.SVI(batch_size=6, steps=9, local_steps=40), [4.0, 3.0, 2.0, 1.5, 1.2])
    options: dict[str, Any] = {"document_prior": 0.5, "topic_prior": 0.3, "local_tol": 0.0}
    fits = [tp.fit(tp.LDA(3, engine=engine, **options), counts, method) for engine in ("host", "autodiff")]
    ours, theirs = (fit.posterior["topics"].concentration for fit in fits)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    cold = tp.fit(tp.LDA(3, engine="host", **options), counts, method.method).posterior["topics"].concentration
    assert np.abs(np.asarray(cold) / np.asarray(ours) - 1).max() > 0.01  # or the schedule would not matter


@pytest.mark.slow
def test_a_batch_of_documents_is_annealed() -> None:
    counts = np.random.default_rng(5).poisson(0.6, (24, 12))
    counts[:, 0] += 1
    model = tp.LDA(3, document_prior=0.5, topic_prior=0.3)
    fit = tp.fit(model, counts, Annealed(tp.VB(local_steps=20, max_iter=50), [3.0] * 15))
    bounds = fit.history["annealed_elbo"][:15]
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all() and bounds[-1] > bounds[0] + 1e-3
    assert fit.history["elbo"][14] < bounds[14]  # energies are negative, and count in full at T = 1


def test_the_energy_of_a_chain_is_the_derivative_of_its_value() -> None:
    """Taken from the messages of the closed form, beside automatic differentiation in the power."""
    rng = np.random.default_rng(6)
    model, data = tp.HMM(2, "poisson", prior=tp.Gamma(2.0, 1.0)).prepare(rng.poisson(3.0, (15, 2)).astype(float))
    q = model.initial(jax.random.key(0), data)
    m = means(q.blocks)

    def value(s: Any) -> Any:
        return jnp.sum(data.weights * model.log_evidence(m, data.values, Powers(s, s)))

    walked = jax.jit(lambda s: walk_with_energy(model, m, data, s, 1))(jnp.asarray(0.4))
    wanted, slope = jax.jit(jax.value_and_grad(value))(jnp.asarray(0.4))
    assert float(walked.value) == pytest.approx(float(wanted), rel=1e-12)
    assert float(walked.energy) == pytest.approx(float(slope), rel=1e-10)
