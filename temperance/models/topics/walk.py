"""A walk over the documents of LDA in closed form: what autodiff of `LDA.log_evidence` gives, without logarithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...families.concentration import ConcentrationVector
from ...families.dirichlet import Dirichlet, DirichletVector
from ...numerics.special import digamma, log_gamma
from .._blocks import Means, Walked, Way, join_powers, power_rows
from .._data import Data, over_blocks
from .local import Heat as DocumentHeat
from .local import Local, local_step, mean_energies

if TYPE_CHECKING:
    from .lda import LDA


def walk_documents(model: LDA, m: Means, data: Data, way: Way, local: dict[str, Any] | None) -> Walked:
    """`Model.walk`. With `way.heat` documents find powers of their own, which the messages have."""
    engine = "host" if model.on_host else "device"
    local = local or model.initial_local(m, data.values)
    alpha, powers = model.concentration(m), way.powers
    heat = None
    if way.heat is not None:
        assert way.heat.costs is not None
        heat = DocumentHeat(way.heat.powers, way.heat.costs, jnp.asarray(way.heat.hot))

    def block(part: Any, _: Array) -> tuple[Any, Any]:
        x, weights, own, gamma = part
        found = local_step(
            m["topics"].log, x, weights, alpha, gamma, join_powers(powers, own), way.local_steps, model.local_tol,
            engine, model.single, heat,
        )  # fmt: skip
        value, log_theta = document_terms(found, alpha)
        sums = jnp.sum(weights * value), found.messages, weights @ log_theta, jnp.sum(weights)
        return sums, (found.gamma, None if heat is None else (found.observed, found.powers))

    rows = (data.values, data.weights, power_rows(powers), local["proportions"].concentration)
    sums, (gamma, own) = over_blocks(block, rows, *(() if engine == "host" else data.cuts))
    value, topics, log_theta, total = sums
    messages = jax.tree.map(jnp.zeros_like, m) | {"topics": DirichletVector(topics)}
    if "document_prior" in m:
        messages["document_prior"] = ConcentrationVector(log_theta, total)
    proportions = {"proportions": Dirichlet.from_natural(DirichletVector(gamma - 1.0))}
    walked = Walked(value, messages, None, proportions)
    if not way.energy:
        return walked
    documents = _document_energies(alpha, proportions["proportions"], powers.observation, data)
    if own is not None:
        observed, found_powers = own
        return walked._replace(energy=data.weights * (observed + documents), power=found_powers)
    words = jnp.sum(messages["topics"].dot(m["topics"])) / powers.observation
    return walked._replace(energy=words + data.weights @ documents)


def _document_energies(alpha: Array, proportions: Dirichlet, power: Any, data: Data) -> Float[Array, " n"]:
    """Σ_k N_dk E log θ_dk, with the counts that the concentrations tell of: exact once the local steps converged."""
    counts = proportions.concentration - alpha[None]
    return jnp.sum(counts * proportions.mean().log, axis=1) / jnp.broadcast_to(power, data.weights.shape)


def mean_energy(model: LDA, topics: Array, gamma: Float[Array, "n k"], data: Data) -> Float[Array, ""]:
    """Σ_d Σ_v n_dv log Σ_k E[θ_dk] E[β_kv]: the energy that goes with a normaliser from which topics of tokens are
    summed out."""
    engine = "host" if model.on_host else "device"

    def block(part: Any, _: Array) -> tuple[Float[Array, ""], tuple[()]]:
        x, weights, here = part
        return jnp.sum(weights * mean_energies(topics, here, x, engine, model.single)), ()

    rows = (data.values, data.weights, gamma)
    return over_blocks(block, rows, *(() if engine == "host" else data.cuts))[0]


def document_terms(found: Local, alpha: Float[Array, " k"]) -> tuple[Float[Array, " n"], Float[Array, "n k"]]:
    """The bound of each document, with the prior and entropy of its proportions; and E log θ."""
    gamma = found.gamma
    total = jnp.sum(gamma, axis=1)
    log_theta = digamma(gamma) - digamma(total)[:, None]
    difference = jnp.sum((alpha[None] - gamma) * log_theta, axis=1)
    normalisers = jnp.sum(log_gamma(gamma), axis=1) - log_gamma(total)
    prior = jnp.sum(log_gamma(alpha)) - log_gamma(jnp.sum(alpha))
    return found.evidence + difference + normalisers - prior, log_theta
