"""Keys made on the host are JAX's, bit for bit, and compile nothing."""

import jax
import numpy as np
import pytest

from temperance.numerics import keys


def bits(key: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


@pytest.mark.parametrize("seed", [0, 7, -1, 2**31, 2**40 + 5, -(2**63), 2**63 - 1])
def test_the_bits_are_those_of_jax(seed: int) -> None:
    key = jax.random.key(seed)
    np.testing.assert_array_equal(bits(keys.make_key(seed)), bits(key))
    for number in (0, 1, 2, 12345):
        np.testing.assert_array_equal(bits(keys.fold_in(key, number)), bits(jax.random.fold_in(key, number)))
    for count, which in ((1, slice(None)), (5, slice(None)), (5, slice(2, 4))):
        np.testing.assert_array_equal(bits(keys.split(key, count, which)), bits(jax.random.split(key, count)[which]))


def test_another_generator_is_left_to_jax() -> None:
    key = jax.random.key(3, impl="rbg")
    np.testing.assert_array_equal(bits(keys.fold_in(key, 4)), bits(jax.random.fold_in(key, 4)))
    np.testing.assert_array_equal(bits(keys.split(key, 3)), bits(jax.random.split(key, 3)))


def test_nothing_is_compiled() -> None:
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, _, **__: compiled.append(event))
    try:
        keys.split(keys.fold_in(keys.make_key(11), 3), 4)
        assert not [event for event in compiled if event.endswith("backend_compile_duration")]
    finally:
        jax.monitoring.clear_event_listeners()


@pytest.mark.parametrize("count", [1, 70, 3000])
def test_shuffles_are_those_of_jax(count: int) -> None:
    own = jax.random.split(jax.random.key(5), 3)
    wanted = np.stack([jax.random.permutation(key, count) for key in own])
    np.testing.assert_array_equal(keys.shuffles(np.asarray(bits(own)), count), wanted)
