"""The shares of topics over all documents as pieces of a stick: the prior of α in a hierarchical Dirichlet process.

    v_k ~ Beta(1, γ)   π_k = v_k Π_{j<k} (1 − v_j)   α = c π, where the last of K topics takes the rest

The log likelihood of α from n documents is ⟨s, α⟩ − n A(α), with s = Σ_d E log θ_d and A(α) = Σ_k log Γ(α_k) − log
Γ(c). As log Γ(1 + x) is convex and 0 at 0, −A(α) ≥ (K − 1) log c + Σ_k log π_k (Hughes, Kim and Sudderth, 2015), with
equality at c → 0 and less than 0.6 nats per document lost at c = 1. Under this bound the best q(v_k) given the other
sticks is

    q(v_k) ∝ v_k^n (1 − v_k)^(γ − 1 + n (K − k)) exp(C_k v_k),

with C_k = c Π_{j<k} E(1 − v_j) (s_k − the mean of s over the pieces after k). Its integrals are one-dimensional. The
order of the topics is chosen too: the topic with the largest s takes the largest piece.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from ..errors import UnsupportedMethod
from ._family import Family
from .concentration import ConcentrationVector

_SWEEPS = 3  # sweeps over the sticks for each new natural parameter
_STEP = 0.05  # of the quadrature, in u; its nodes lie sinh(u) standard deviations from the mode
_NODES = np.arange(-5.5, 5.5 + _STEP / 2, _STEP)


class Moments(NamedTuple):
    """Moments of v under the density ∝ v^a (1 − v)^b exp(c v)."""

    log_normaliser: Array
    value: Array
    log: Array
    log_complement: Array


def moments(a: Array, b: Array, c: Array) -> Moments:
    """Compute `Moments` by the trapezium rule on the logit scale, where the density has one mode."""
    log, log_complement, level = _rule(a, b, c)
    total = jax.nn.logsumexp(level, axis=-1)
    weight = jnp.exp(level - total[..., None])
    return Moments(total, *(jnp.sum(weight * part, axis=-1) for part in (jnp.exp(log), log, log_complement)))


def _rule(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """log v and log(1 − v) at the nodes, and the logarithms of their weights."""
    v, w = _mode(a + 1.0, b + 1.0, c), _mode(b + 1.0, a + 1.0, -c)
    scale = 1.0 / jnp.sqrt(v * w * (a + b + 2.0 - c * (w - v)))
    nodes = _NODES.reshape((1,) * jnp.ndim(scale) + (-1,))
    y = (jnp.log(v) - jnp.log(w))[..., None] + scale[..., None] * np.sinh(nodes)
    log, log_complement = jax.nn.log_sigmoid(y), jax.nn.log_sigmoid(-y)
    level = (a + 1.0)[..., None] * log + (b + 1.0)[..., None] * log_complement + c[..., None] * jnp.exp(log)
    return log, log_complement, level + np.log(_STEP * np.cosh(nodes)) + jnp.log(scale)[..., None]


def _mode(a: Array, b: Array, c: Array) -> Array:
    """The root in (0, 1) of a (1 − v) − b v + c v (1 − v) = 0."""
    half = 0.5 * (a + b - c)
    root = jnp.sqrt(jnp.square(half) + a * c)
    safe = jnp.where(half < 0.0, c, 1.0)
    return jnp.where(half < 0.0, (root - half) / safe, a / jnp.where(half < 0.0, 1.0, half + root))


class Sticks(Family):
    """q(v), a family in α = c π(v): natural parameters (s, n), statistics (α, a lower bound on −A(α)).

    The natural parameter names a problem; `tilt` (C above, in the order of the pieces) and `order` (the topic that
    takes each piece) are the state of the search for the best q(v), which every new parameter continues.
    """

    natural: ConcentrationVector
    tilt: Float[Array, " j"]
    order: Int[Array, " k"]
    first: float = eqx.field(static=True)  # γ
    total: float = eqx.field(static=True)  # c

    def __init__(self, n_topics: int, first: float, total: float):
        """The prior of α for `n_topics` topics: γ = `first`, c = `total`."""
        self.natural = ConcentrationVector(jnp.zeros(n_topics), jnp.zeros(()))
        self.tilt, self.order = jnp.zeros(n_topics - 1), jnp.arange(n_topics)
        self.first, self.total = first, total

    def with_natural(self, natural: ConcentrationVector) -> Self:
        s, value = natural.concentration, self._moments().value
        places = jnp.argsort(-jnp.round(1000 * len(s) * _pieces(value)))  # nearly equal pieces keep their order
        order = self.order.at[places].set(jnp.argsort(-s))
        a, b = _exponents(natural.minus_log_normaliser, len(s), self.first)
        ordered = s[order]

        def stick(after: Array, here: tuple[Array, ...]) -> tuple[Array, tuple[Array, Array]]:
            own, left, a, b = here
            tilt = self.total * left * (own - after)
            value = moments(a, b, tilt).value
            return value * own + (1.0 - value) * after, (tilt, value)

        def sweep(_: int, found: tuple[Array, Array]) -> tuple[Array, Array]:
            left = jnp.concatenate([jnp.ones(1), jnp.cumprod(1.0 - found[1])[:-1]])
            return jax.lax.scan(stick, ordered[-1], (ordered[:-1], left, a, b), reverse=True)[1]

        tilt, _ = jax.lax.fori_loop(0, _SWEEPS, sweep, (self.tilt, value))
        return self._with(natural, tilt, order)

    def _with(self, natural: ConcentrationVector, tilt: Array, order: Array) -> Self:
        fields = {"natural": natural, "tilt": tilt, "order": order, "first": self.first, "total": self.total}
        family = object.__new__(type(self))
        for name, value in fields.items():
            object.__setattr__(family, name, value)
        return family

    def _moments(self) -> Moments:
        a, b = _exponents(self.natural.minus_log_normaliser, len(self.order), self.first)
        return moments(a, b, self.tilt)

    def mean(self) -> ConcentrationVector:
        """E α, topic by topic, and the bound on E[−A(α)]."""
        found, k = self._moments(), len(self.order)
        after = jnp.arange(k - 1, 0, -1)
        bound = (k - 1) * np.log(self.total) + jnp.sum(found.log + after * found.log_complement)
        alpha = jnp.zeros(k).at[self.order].set(self.total * _pieces(found.value))
        return ConcentrationVector(alpha, bound)

    def entropy(self) -> Float[Array, ""]:
        """−KL(q(v) ‖ the prior): with it the bound of a model has all its terms."""
        found, n = self._moments(), self.natural.minus_log_normaliser
        after = jnp.arange(len(self.order) - 1, 0, -1)
        energy = n * (found.log + after * found.log_complement) + self.tilt * found.value
        return jnp.sum(found.log_normaliser + np.log(self.first) - energy)

    def log_normaliser(self) -> Float[Array, ""]:
        return self.natural.dot(self.mean()) + self.entropy()

    def is_proper(self) -> Bool[Array, ""]:
        return self.natural.minus_log_normaliser >= 0

    def mode(self) -> Float[Array, " k"]:
        """E α, which stands for the mode."""
        return self.mean().concentration

    def sample(self, key: Key[Array, ""]) -> Float[Array, " k"]:
        """A draw of α, with sticks drawn from the nodes of the quadrature (near the mode 1/20 standard deviation
        apart)."""
        a, b = _exponents(self.natural.minus_log_normaliser, len(self.order), self.first)
        log, _, level = _rule(a, b, self.tilt)
        node = jax.random.categorical(key, level, axis=-1)
        value = jnp.exp(jnp.take_along_axis(log, node[:, None], axis=1)[:, 0])
        return jnp.zeros(len(self.order)).at[self.order].set(self.total * _pieces(value))

    def statistics(self, draw: Float[Array, " k"]) -> ConcentrationVector:
        raise UnsupportedMethod("the sticks of tp.HDP have no conditional that is known; use tp.VB() or tp.SVI()")

    @classmethod
    def from_mean(cls, mean: ConcentrationVector, guess: Self | None = None) -> Self:
        raise UnsupportedMethod("sticks have no closed form for their mean; use tp.VB() or tp.SVI()")


def _exponents(n: Array, n_topics: int, first: float) -> tuple[Array, Array]:
    after = jnp.arange(n_topics - 1, 0, -1)
    return jnp.broadcast_to(n, after.shape), first - 1.0 + n * after


def _pieces(value: Array) -> Array:
    """E π from the means of the sticks, which are independent."""
    left = jnp.concatenate([jnp.ones(1), jnp.cumprod(1.0 - value)])
    return left * jnp.append(value, 1.0)
