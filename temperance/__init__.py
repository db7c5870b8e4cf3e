"""Temperance: approximate Bayesian inference in latent-variable models.

One model, every method, an honest log evidence.
"""

import jax

# Bounds are differences of large sums: float32 cannot hold them. Set before any array is made.
jax.config.update("jax_enable_x64", True)

from .families import *  # noqa: E402, F403
