"""Sums over paths of states against enumeration, on the device and on the host."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from temperance.numerics import chains
from temperance.numerics.chains import CUT, FIRST, ON, Chain
from tests.exact.paths import Sums, sum_paths
from tests.tiers import with_slow

ENGINES = ("device", "host")
LENGTHS = (4, 1, 3)


def problem(floor: float = 0.0, states: int = 3, seed: int = 0) -> tuple[Chain, list[Sums]]:
    """Three sequences; with a `floor` some transitions are out of reach of plain products."""
    rng = np.random.default_rng(seed)
    initial, transition = rng.normal(size=states) - 1.0, rng.normal(size=(states, states)) - 1.0
    transition[0] += floor
    transition[:, 1] += floor
    likelihood = 3.0 * rng.normal(size=(sum(LENGTHS), states))
    starts = np.concatenate([[FIRST] + [ON] * (n - 1) for n in LENGTHS]).astype(np.int8)
    pieces = np.split(likelihood, np.cumsum(LENGTHS)[:-1])
    truth = [sum_paths(initial, transition, piece) for piece in pieces]
    return Chain(*map(jnp.asarray, (initial, transition, likelihood, starts))), truth


@pytest.mark.parametrize(
    ("floor", "engine"),
    with_slow([(f, engine) for engine in (*ENGINES, "parallel") for f in (0.0, -900.0)], (-900.0, "host")),
)
def test_statistics_equal_enumeration(engine: str, floor: float) -> None:
    chain, truth = problem(floor)
    each = np.array([2.0, 0.5, 1.5])  # a weight for each sequence
    weights = jnp.asarray(np.repeat(each, LENGTHS))
    found = jax.jit(chains.expected_statistics, static_argnums=2)(chain, weights, engine)
    sums = np.add.reduceat(np.asarray(found.increments), np.cumsum((0, *LENGTHS[:-1])))
    np.testing.assert_allclose(sums, [one.log_sum for one in truth], rtol=1e-12)
    np.testing.assert_allclose(found.states, np.concatenate([one.states for one in truth]), atol=1e-12)
    pairs = sum(weight * one.transitions for weight, one in zip(each, truth, strict=True))
    np.testing.assert_allclose(found.transitions, pairs, atol=1e-12)
    value, log_filter = jax.jit(chains.filter_states, static_argnums=1)(chain, engine)
    np.testing.assert_allclose(value, found.increments, rtol=1e-12)
    # After the last step of a sequence there is nothing left to smooth with.
    last = np.cumsum(LENGTHS) - 1
    np.testing.assert_allclose(np.exp(log_filter[last]), found.states[last], atol=1e-12)


@pytest.mark.parametrize("engine", with_slow([*ENGINES, "parallel"], "device", "parallel"))
def test_derivative_is_the_posterior(engine: str) -> None:
    chain, truth = problem()
    total = lambda *given: jnp.sum(chains.sum_paths(Chain(*given, chain.starts), engine=engine))  # noqa: E731
    value, (initial, transition, likelihood) = jax.value_and_grad(total, (0, 1, 2))(*chain[:3])
    assert float(value) == pytest.approx(sum(one.log_sum for one in truth), rel=1e-12)
    np.testing.assert_allclose(initial, sum(one.first for one in truth), atol=1e-12)
    np.testing.assert_allclose(transition, sum(one.transitions for one in truth), atol=1e-12)
    np.testing.assert_allclose(likelihood, np.concatenate([one.states for one in truth]), atol=1e-12)
    # The rule against plain differentiation of the forward recursion, forwards and backwards.
    plain = lambda *given: jnp.sum(chains._forward(Chain(*given, chain.starts))[1])  # noqa: E731
    for found, wanted in zip((initial, transition, likelihood), jax.grad(plain, (0, 1, 2))(*chain[:3]), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)
    tangents = tuple(jnp.cos(leaf) for leaf in chain[:3])
    both = [jax.jvp(function, chain[:3], tangents)[1] for function in (total, plain)]
    assert float(both[0]) == pytest.approx(float(both[1]), rel=1e-10)


@pytest.mark.parametrize(
    ("engine", "floor"),
    with_slow([("device", 0.0), ("host", 0.0), ("host", -900.0)], ("device", 0.0), ("host", -900.0)),
)
def test_drawn_paths(engine: str, floor: float) -> None:
    """The derivative with a key is that of one path; over many keys it averages to the posterior."""
    chain, truth = problem(floor)

    def statistics(key: Any) -> Any:
        total = lambda *given: jnp.sum(chains.sum_paths(Chain(*given, chain.starts), key, engine))  # noqa: E731
        return jax.value_and_grad(total, (0, 1, 2))(*chain[:3])

    draws = 2000
    value, (initial, transition, states) = jax.vmap(statistics)(jax.random.split(jax.random.key(3), draws))
    np.testing.assert_allclose(value, sum(one.log_sum for one in truth), rtol=1e-12)
    assert set(np.unique(states)) <= {0.0, 1.0} and (np.asarray(states).sum(axis=2) == 1).all()
    assert (np.asarray(transition).sum(axis=(1, 2)) == sum(LENGTHS) - len(LENGTHS)).all()
    error = 4.5 * np.sqrt(0.25 / draws)
    np.testing.assert_allclose(states.mean(axis=0), np.concatenate([one.states for one in truth]), atol=error)
    wanted = sum(one.transitions for one in truth)
    spread = np.asarray(transition).std(axis=0) / np.sqrt(draws)
    assert (np.abs(transition.mean(axis=0) - wanted) <= 4.5 * spread + 1e-12).all()
    np.testing.assert_allclose(initial.mean(axis=0), sum(one.first for one in truth), atol=3 * error)


@pytest.mark.parametrize("floor", [0.0, -900.0])
def test_the_kernel_does_not_hide_what_is_not_a_number(floor: float) -> None:
    chain, _ = problem(floor)
    broken = chain._replace(likelihood=chain.likelihood.at[2, 1].set(jnp.nan))
    assert np.isnan(chains.expected_statistics(broken, jnp.ones(sum(LENGTHS)), "host").increments[2])
    assert np.isnan(chains.filter_states(broken, "host")[0][2])


def test_small_problems_do_not_wait_for_a_compilation() -> None:
    assert chains.choose_engine("auto", 1_000, 3) == "device"
    assert chains.choose_engine("auto", 100_000, 5) in ("host", "parallel")
    assert chains.choose_engine("host", 1_000, 3) == "host"


def test_best_path() -> None:
    for seed in range(5):
        chain, truth = problem(seed=seed)
        assert chains.best_path(chain).tolist() == np.concatenate([one.best for one in truth]).tolist()


def test_host_and_device_agree_on_long_chains_of_many_states() -> None:
    """More steps than the host treats together, states without data, a cut, steps of weight zero."""
    rng = np.random.default_rng(1)
    steps, states = 20_000, 7
    likelihood = 30.0 * rng.normal(size=(steps, states))
    likelihood[:, 3] -= 800.0
    starts = np.zeros(steps, dtype=np.int8)
    starts[[0, 9_000, 9_001]] = FIRST
    starts[12_345] = CUT
    transition = np.log(rng.dirichlet(np.full(states, 0.3), size=states))
    chain = Chain(*map(jnp.asarray, (np.zeros(states), transition, likelihood, starts)))
    weights = jnp.asarray(rng.integers(0, 2, steps).astype(float))
    device, host = (chains.expected_statistics(chain, weights, engine) for engine in ENGINES)
    for here, there in zip(device, host, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)
    uniform = jnp.asarray(rng.uniform(size=steps))
    (value, path), (other, same) = (chains.draw_paths(chain, uniform, engine) for engine in ENGINES)
    np.testing.assert_allclose(value, other, rtol=1e-9, atol=1e-9)
    assert (path == same).mean() > 0.999  # a level may fall on the rounding of a boundary
