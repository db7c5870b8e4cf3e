"""States of parts that are on or off."""

import jax
import jax.numpy as jnp
import numpy as np

from temperance.numerics.binary import all_states, log_states


def test_parts_that_are_certain():
    """Shares of 1 and 0 leave the states that contradict them without probability, and the others with all of it."""
    share = jnp.asarray([1.0, 0.25, 0.0])
    found = jax.jit(log_states)(jnp.log(share), jnp.log1p(-share), all_states(3))
    states = np.asarray(all_states(3))
    expected = np.prod(np.where(states > 0, share, 1.0 - share), axis=1)
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-15)
    assert np.exp(found).sum() == 1.0
