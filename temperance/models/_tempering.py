"""What tempering asks of a model beside its one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from .._module import Module
from ..errors import UnsupportedMethod
from ..families._family import Family
from ._blocks import Heat, Means, Powers, Walked, expected_power
from ._data import Data

if TYPE_CHECKING:
    from ._model import Model
    from ._normaliser import Normaliser


class Heated(NamedTuple):
    """What each datum says at its present power, and the power it finds."""

    value: Float[Array, " n"]
    energy: Float[Array, " n"]
    power: Float[Array, " n"]
    messages: Callable[[Float[Array, " n"]], Means]  # given the weights of the data, at the powers that they found


class Tempering(Module):
    """The part of a model that knows its energy."""

    @property
    def melts(self) -> bool:
        """Whether there can be a critical temperature, above which all parts are the same."""
        return True

    def log_base(self, data: Data) -> Float[Array, ""] | None:
        """Σ_n log h(x_n), where E log p(x, z | θ) is linear in all statistics together but for this base measure."""
        return None

    def acting_energy(self, blocks: dict[str, Family], walked: Walked, data: Data) -> Array:
        """The energy that belongs to the model's tempered normaliser."""
        assert walked.energy is not None
        return walked.energy

    def heat(self, data: Data, powers: np.ndarray) -> Heat:
        """The powers that each datum may have, with what they cost; refuses data without one noise to temper."""
        raise UnsupportedMethod(
            "tp.LVT is for Gaussian, Bernoulli and categorical mixtures without missing values, linear regressions, "
            "factor analysis without missing values, factorial mixtures and LDA, not for "
            f"{self.temperable_name}; use tp.Annealed or tp.VB"
        )

    def priced(self, heat: Heat, blocks: dict[str, Family]) -> Heat:
        """The same with what the powers cost under these globals, where that depends on them."""
        return heat

    @property
    def temperable_name(self) -> str:
        """The model as `heat` names it when it refuses."""
        return type(self).__name__

    def heated(self, m: Means, ready: Means, m_local: Means, x: Array, power: Float[Array, " n"], heat: Heat) -> Heated:
        """What each datum says at its power, and the power it finds, with `ready` the packed statistics that messages
        are for. By derivatives in both powers, for models whose data have one noise whatever their latents are."""
        return by_derivatives(self, ready, m_local, x, power, heat)  # type: ignore[arg-type]

    def log_tempered_normaliser(self, temperatures: np.ndarray, data: Data, seed: int = 0) -> Normaliser:
        """log C(T) for as many data as these; by sampling where a model has no closed form (`_normaliser.py`)."""
        from ._normaliser import by_sampling

        return by_sampling(self, temperatures, data, seed)

    def log_volume(self, m: Means, x: Any, power: Float[Array, ""], key: Key[Array, ""] | None) -> Float[Array, " n"]:
        """log Σ_z ∫ p(x, z | θ)^power dx of each row, integrated over its observed entries: a missing entry has no
        volume. As in `log_evidence`, with a key every sum is a draw, so that derivatives are the statistics of
        simulated latents and data."""
        raise UnsupportedMethod(
            f"{type(self).__name__} has no tempered normaliser, which tp.VT needs; use tp.Annealed or tp.VB"
        )

    def known_gaussians(self, data: Data) -> float:
        """About how many numbers of these data are Gaussian: that part of the volume is known beforehand."""
        return 0.0

    def numbers_each(self, x: Any) -> int:
        """How many numbers a datum has."""
        return int(x.shape[1])

    def log_peak(self, m: Means, width: int) -> Float[Array, ""]:
        """E log of a datum's highest density, the same whatever its latents are."""
        raise AssertionError("a model with `heat` has `log_peak` or `heated`")


def by_derivatives(model: Model, m: Means, m_local: Means, x: Array, power: Array, heat: Heat) -> Heated:
    """`Tempering.heated`: at fixed latents the messages of a datum are proportional to its power."""

    def rows(m_global: Means, observation: Array, latent: Array) -> Float[Array, " n"]:
        return model._datum(m_global | m_local, x, Powers(observation, latent), None)

    width = model.numbers_each(x)
    value, back = jax.vjp(rows, m, power, power)
    _, observed, latent = back(jnp.ones_like(value))
    fresh = expected_power(heat, model.log_peak(m, width) - observed, width, power)
    return Heated(value, observed + latent, fresh, lambda weights: back(weights * fresh / power)[0])
