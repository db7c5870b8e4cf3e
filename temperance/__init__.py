"""Temperance: approximate Bayesian inference in latent-variable models.

One model, every method, an honest log evidence.
"""

import jax

# Bounds are differences of large sums: float32 cannot hold them. Set before any array is made.
jax.config.update("jax_enable_x64", True)

from . import datasets  # noqa: E402
from .families import *  # noqa: E402, F403
from .fit import Fit, fit  # noqa: E402
from .inference.variational.coordinate import VB  # noqa: E402
from .models import GaussianMixture, Mixture  # noqa: E402

__all__ = ["VB", "Fit", "GaussianMixture", "Mixture", "datasets", "fit"]
