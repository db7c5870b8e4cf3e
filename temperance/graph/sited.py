"""Graphs that message passing treats by one-dimensional integrals: a single observed variable that depends on one
Normal variable of all data through one number."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..families import Normal, NormalVector
from ..families.links import Link
from ..models._answers import Sited
from ..models._model import Posterior
from ..models.linear import Prediction
from ..models.linear.generalised import Cases
from ..numerics.linalg import cholesky, explicit_inverse
from ..numerics.quadrature import tilted_moments
from ..numerics.special import LOG_2PI
from .answers import log_predictive
from .columns import input_columns
from .compiled import ConditionalGraphModel
from .responses import link_of, targets
from .scope import Scope
from .spec import RESPONSES, Quantity, Spec


def suits(spec: Spec) -> type[ConditionalGraphModel]:
    """The kind of a graph with inputs: one of those below where the data meet one Normal variable without plates, each
    through one number, and have no other latents."""
    plain = ConditionalGraphModel
    if len(spec.observed) != 1 or any(q.latent and spec.local(q) for q in spec):
        return plain
    (seen,) = spec.observed
    noise = _noise_block(spec)
    blocks = [spec[name] for name in spec.factor_blocks(seen.name) - {noise}]
    response, number = seen.kind in RESPONSES and seen.kind != "softmax", seen.kind == "normal" and seen.scalar
    if not (response or number) or spec.factor_gates(seen.name):
        return plain
    known = [spec[name] for argument, name in seen.parents if argument != "mean"]
    alone = len(blocks) == 1 and blocks[0].value == "real" and blocks[0].plates == ()
    if not alone or any(q.plates for q in known) or seen.plates != (spec.data_plate,):
        return plain
    return SitedGraph if response else LineGraph if noise or not _latents(spec, known) else plain


def _noise_block(spec: Spec) -> str | None:
    """The precision of the observed variable, if it is a variable itself."""
    (seen,) = spec.observed
    name = seen.parent("precision")
    return name if seen.kind == "normal" and name and spec[name].latent and spec[name].kind == "fixed" else None


def _latents(spec: Spec, known: list[Quantity]) -> bool:
    return any(spec.ancestors(q.name) for q in known)


class LineGraph(ConditionalGraphModel, Sited):
    """A graph with inputs for which `suits` is true: with Gaussian noise."""

    @property
    def _seen(self) -> Quantity:
        return self.spec.observed[0]

    @property
    def sited(self) -> str:
        (name,) = self.spec.factor_blocks(self._seen.name) - {self.noise_block}
        return name

    @property
    def noise_block(self) -> str | None:
        return _noise_block(self.spec)

    def sites(self, x: Any) -> Cases:
        """The data as rows of features: a is linear in the block, so its value at zero and its derivatives give it."""
        mean = self._seen.parent("mean")
        n = x[self._seen.name].shape[0]

        def number(w: Float[Array, " p"]) -> Float[Array, " n"]:
            m = {self.sited: NormalVector(w, -0.5 * w[:, None] * w[None])}
            a = Scope(self.spec, self.constants, m, x).value(mean).fields["mean"][..., 0]
            return jnp.broadcast_to(a, (n,))

        zero = jnp.zeros(self.spec[self.sited].size)
        return Cases(jax.jacfwd(number)(zero), targets(self._seen.kind, x[self._seen.name]), number(zero))

    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        """log p(target | a) for a known noise, and 0 for a missing target."""
        name = self._seen.parent("precision")
        assert name is not None
        precision = Scope(self.spec, self.constants, {}, {}, rows=1).value(name).fields["value"]
        y = target.reshape((1,) * (a.ndim - 1) + (-1,))
        square = jnp.square(jnp.nan_to_num(y) - a)
        return jnp.where(jnp.isnan(y), 0.0, 0.5 * (jnp.log(precision) - LOG_2PI - precision * square))


class SitedGraph(LineGraph):
    """A graph with inputs for which `suits` is true: with another response."""

    @property
    def link(self) -> Link:
        scope = Scope(self.spec, self.constants, {}, {}, rows=1)
        known = {argument: scope.value(name) for argument, name in self._seen.parents if argument != "mean"}
        return link_of(self._seen.kind, known, ())

    def log_factor(self, a: Float[Array, "*m n"], target: Float[Array, " n"]) -> Float[Array, "*m n"]:
        """log p(target | a), and 0 for a missing target."""
        y = target.reshape((1,) * (a.ndim - 1) + (-1,))
        gap = jnp.isnan(y)
        value = self.link.log_factor(a, jnp.where(gap, 1.0, y))
        return jnp.where(gap, 0.0, value)

    def log_predictive(self, q: Posterior, x: Any) -> Float[Array, " n"]:
        """log ∫ p(y | a) q(a) da by quadrature, where q is Normal."""
        weights = q.blocks[self.sited]
        if not isinstance(weights, Normal):
            return log_predictive(self, q, x)
        rows = self.sites(x)
        return tilted_moments(lambda a: self.log_factor(a, rows.target), *_marginals(weights, rows)).log_z

    def predict(self, q: Any, inputs: Any) -> Prediction:
        """Mean and variance of y, which average over a Normal q(a) exactly or by quadrature."""
        weights = q.blocks[self.sited] if isinstance(q, Posterior) else None
        if not isinstance(weights, Normal):
            return super().predict(q, inputs)
        return Prediction(*map(np.asarray, _predicted(self, weights, input_columns(self.spec, inputs))))


@eqx.filter_jit
def _predicted(model: SitedGraph, weights: Normal, columns: dict[str, Any]) -> tuple[Array, Array]:
    (seen,) = model.spec.observed
    y = jnp.ones(jax.tree.leaves(columns)[0].shape[0])  # any value: only the features are needed
    rows = model.sites({name: jnp.asarray(column) for name, column in columns.items()} | {seen.name: y})
    return model.link.moments(*_marginals(weights, rows))


def _marginals(weights: Normal, rows: Cases) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Mean and variance of a under q."""
    covariance = explicit_inverse(cholesky(weights.natural.precision))
    variance = jnp.sum((rows.features @ covariance) * rows.features, axis=1)
    return rows.features @ weights.mode() + rows.offset, variance
