"""Answers of a fitted graph: predictions, imputations, shares of discrete latents, and the bound node by node.

Most are derivatives: adding ε · f(z) to a factor and differentiating the log evidence in ε gives E[f(z) | data].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..errors import UnsupportedMethod
from ..families import Point
from ..families._family import Family
from ..models._blocks import prior_terms
from ..models._data import Data, over_blocks
from ..models._model import Means, Posterior, Powers, means
from ..models.linear import Prediction
from ..numerics.linalg import cholesky, explicit_inverse
from .columns import as_columns, input_columns
from .gaussian_chain import chain_of, draw_steps, expected_steps
from .gaussian_chain import moments as chain_moments
from .integration import hidden_means, scores
from .predictive import exact_predictive, expected_probabilities
from .responses import moments as response_moments
from .scope import Scope
from .simulation import simulate
from .spec import RESPONSES, Quantity
from .tables import Table, add, multiply
from .values import Value

if TYPE_CHECKING:
    from .compiled import GraphModel

_DRAWS = 200  # draws of the posterior, where a prediction has no closed form
_LOCAL_STEPS = 20  # passes over the local blocks of new data


def explain(model: GraphModel, m: Means, x: Any) -> dict[str, Family]:
    """The local blocks of new data."""
    if not model.local_groups:
        return {}
    return model.ascend_local(m, x, Powers(), model.initial_local(m, x), _LOCAL_STEPS)


def draw_blocks(q: Any, key: Key[Array, ""], count: int) -> dict[str, Any]:
    """Draws of the global blocks, from families or from draws."""
    if not isinstance(q, Posterior):
        return jax.tree.map(lambda leaf: leaf[0], q.resampled(key, count).blocks)

    def one(key: Key[Array, ""]) -> dict[str, Any]:
        keys = jax.random.split(key, len(q.blocks))
        return {name: family.sample(k) for (name, family), k in zip(q.blocks.items(), keys, strict=True)}

    return jax.vmap(one)(jax.random.split(key, count))


@eqx.filter_jit
def sample_predictive(model: GraphModel, key: Key[Array, ""], q: Posterior, n: int) -> dict[str, Array]:
    key_draw, key_data = jax.random.split(key)
    draws = draw_blocks(q, key_draw, n)
    rows = jax.vmap(lambda key, draw: simulate(model, key, draw, 1))(jax.random.split(key_data, n), draws)
    return jax.tree.map(lambda leaf: leaf[:, 0], rows)


def log_predictive(model: GraphModel, q: Posterior, x: Any) -> Float[Array, " n"]:
    """The log predictive density: exact where each datum meets each block at most once, else an average over posterior
    draws."""
    exact = exact_predictive(model, q, x)
    if exact is not None:
        return exact
    draws = draw_blocks(q, jax.random.key(0), _DRAWS)

    def one(draw: dict[str, Any]) -> Float[Array, " n"]:
        m = model.statistics(draw)
        local = explain(model, m, x)
        value = model._datum(m | means(local), x, Powers(), None)
        for family in local.values():
            entropy = family.entropy()
            value = value + jnp.sum(entropy, axis=tuple(range(1, entropy.ndim)))
        return value

    each = jax.lax.map(one, draws, batch_size=16)
    return jax.nn.logsumexp(each, axis=0) - jnp.log(_DRAWS)


# ---- discrete latents ---------------------------------------------------------------------------------------


def responsibilities(model: GraphModel, q: Posterior, x: Any) -> Float[Array, "n *k"]:
    """The probabilities of the values of the one discrete latent of each datum."""
    names = [v.name for v in model.spec if v.latent and v.discrete and model.spec.local(v)]
    if len(names) != 1:
        found = ", ".join(map(repr, names)) or "none"
        raise UnsupportedMethod(f"responsibilities need one discrete latent for each datum, this graph has {found}")
    return state_shares(model, q, x)[names[0]]


def state_shares(model: GraphModel, q: Posterior, x: Any) -> dict[str, Array]:
    """For each discrete latent of the data, the probabilities of its values."""
    m = means(q.blocks)
    m = m | means(explain(model, m, x))
    scope = Scope(model.spec, model.constants, m, x)
    zero = {}
    for name in model.spec.summed_out:
        v = model.spec[name]
        zero[name] = jnp.zeros((*scope.shape(v), v.size))

    def total(tilt: dict[str, Array]) -> Array:
        tables = {
            name: Table((*scope.axes(model.spec[name]), model.spec.state_axis(name)), array)
            for name, array in tilt.items()
        }
        return jnp.sum(model.evaluate(scope, tilt=tables))

    shares = jax.grad(total)(zero)
    local = {name: m[name].indicator for name in model.spec.factorised if name in m and name not in model.prior}
    return shares | local


# ---- expected values ------------------------------------------------------------------------------------------


def moments(scope: Scope, q: Quantity) -> tuple[Table, Table]:
    """E[x] and E[x²] of an observed variable given the values of its discrete parents; event axes come last."""
    if q.kind in RESPONSES:
        return response_moments(scope, q)
    parents = {argument: scope.value(parent) for argument, parent in q.parents}
    if q.kind == "normal":
        centre, variance = _normal_moments(parents, q.size)
        if q.scalar:
            centre, variance = (Table(t.axes, t.array[..., 0]) for t in (centre, variance))
        return centre, add(variance, Table(centre.axes, jnp.square(centre.array)))
    if q.kind == "poisson":
        rate = parents["rate"].table("value")
        return rate, Table(rate.axes, jnp.square(rate.array) + rate.array)
    if q.kind == "gamma":
        rate, shape = parents["rate"].table("value"), parents["shape"].table("value")
        inverse = Table(rate.axes, 1.0 / rate.array)
        mean = multiply(shape, inverse)
        return mean, add(Table(mean.axes, jnp.square(mean.array)), multiply(mean, inverse))
    if q.kind == "bernoulli":
        p = parents["probability"]
        mean = Table(p.axes, jnp.exp(p.fields["log"]))
        return mean, mean
    raise UnsupportedMethod(f"{q.name!r} is {q.kind}, which has no mean to predict; see fit.log_predictive")


def _normal_moments(parents: dict[str, Value], d: int) -> tuple[Table, Table]:
    mean = parents["mean"]
    if "dof" in mean.fields:
        factor = cholesky(-2.0 * mean.fields["second"])
        covariance = explicit_inverse(factor)
        centre = (covariance @ mean.fields["first"][..., None])[..., 0]
        return Table(mean.axes, centre), Table(mean.axes, jnp.diagonal(covariance, axis1=-2, axis2=-1))
    precision = parents["precision"]
    value = precision.fields["value"]
    if "log_det" not in precision.fields:
        spread = jnp.broadcast_to((1.0 / value)[..., None], (*value.shape, d))
    elif value.ndim - len(precision.axes) == 1:
        spread = 1.0 / value
    else:
        spread = jnp.diagonal(explicit_inverse(cholesky(value)), axis1=-2, axis2=-1)
    return Table(mean.axes, mean.fields["mean"]), Table(precision.axes, spread)


def expect(model: GraphModel, scope: Scope, q: Quantity, table: Table) -> Array:
    """E[f | data] of a table of values that may depend on discrete latents: (rows, other plates, event)."""
    event = table.array.shape[len(table.axes) :]
    shape = scope.shape(q) + event

    def total(tilt: Array) -> Array:
        product = multiply(Table(scope.axes(q), tilt), table)
        product = Table(product.axes, jnp.sum(product.array, axis=-1)) if event else product
        return jnp.sum(model.evaluate(scope, tilt={q.name: product}))

    return jax.grad(total)(jnp.zeros(shape))


def impute(model: GraphModel, q: Posterior, data: Any) -> dict[str, np.ndarray]:
    """The data with every missing entry replaced by its expected value."""
    columns = as_columns(model.spec, data)
    found = {name: np.array(column) for name, column in columns.items()}
    for v in model.spec.observed:
        gaps = np.isnan(columns[v.name])
        if gaps.any():
            filled = np.asarray(_imputed(model, q, columns, v.name))
            found[v.name] = np.where(gaps, filled, columns[v.name])
    return found


@eqx.filter_jit
def _imputed(model: GraphModel, q: Posterior, columns: dict[str, Any], name: str) -> Array:
    model = model.general()
    m = means(q.blocks)
    local = means(explain(model, m, columns))
    local = local | hidden_means(model, m | local, columns)
    v = model.spec[name]
    smooth = Scope(model.spec, model.constants, m | expected_probabilities(q) | local, columns)
    table, _ = moments(smooth, v)
    return expect(model, Scope(model.spec, model.constants, m | local, columns), v, table)


def predict(model: GraphModel, q: Any, inputs: Any) -> Prediction:
    """Mean and variance of the observed variable at new inputs."""
    targets = model.spec.observed
    if len(targets) != 1:
        raise UnsupportedMethod(f"predict needs one observed variable, this graph has {len(targets)}; see impute")
    columns = input_columns(model.spec, inputs)
    mean, variance = _predicted(model, q, columns)
    return Prediction(np.asarray(mean), np.asarray(variance))


@eqx.filter_jit
def _predicted(model: GraphModel, q: Any, columns: dict[str, Any]) -> tuple[Array, Array]:
    model = model.general()
    (v,) = model.spec.observed
    rows = jax.tree.leaves(columns)[0].shape[0]
    blank = Scope(model.spec, model.constants, {}, columns, rows)
    shape = blank.shape(v) + ((v.size,) if v.kind == "normal" and not v.scalar else ())
    x = {name: jnp.asarray(column) for name, column in columns.items()} | {v.name: jnp.full(shape, jnp.nan)}

    def one(part: tuple[Key[Array, ""], dict[str, Any]]) -> tuple[Array, Array]:
        key, draw = part
        m = model.statistics(draw)
        local = model.sample_local_prior(key, x, draw) if model.local_groups else {}
        m = m | model._local_statistics(m, Data(x, jnp.ones(rows), rows), local)
        scope = Scope(model.spec, model.constants, m, x)
        if hidden := model.spec.integrated:
            key = jax.random.fold_in(key, 1)
            if model.spec[hidden].kind == "gaussian_chain":
                m = m | {hidden: draw_steps(key, scope, model.spec[hidden])}
            else:
                family = scope.family(hidden, scope.natural(hidden))
                m = m | {hidden: family.statistics(family.sample(key))}
            scope = Scope(model.spec, model.constants, m, x)
        first, second = moments(scope, v)
        return expect(model, scope, v, first), expect(model, scope, v, second)

    key_draw, key_local = jax.random.split(jax.random.key(0))
    draws = draw_blocks(q, key_draw, _DRAWS)
    first, second = jax.lax.map(one, (jax.random.split(key_local, _DRAWS), draws), batch_size=16)
    mean = jnp.mean(first, axis=0)
    return mean, jnp.mean(second, axis=0) - jnp.square(mean)


@eqx.filter_jit
def _smoothed(model: GraphModel, q: Any, x: Any) -> tuple[Array, Array]:
    model = model.general()

    def one(m: Means) -> tuple[Array, Array]:
        found = chain_moments(model, m | means(explain(model, m, x)), x)
        return found.mean, jnp.diagonal(found.covariance, axis1=-2, axis2=-1)

    if isinstance(q, Posterior):
        return one(means(q.blocks))
    draws = draw_blocks(q, jax.random.key(0), _DRAWS)
    each, spread = jax.lax.map(lambda draw: one(model.statistics(draw)), draws)
    return jnp.mean(each, axis=0), jnp.mean(spread, axis=0) + jnp.var(each, axis=0)


def smooth(model: GraphModel, q: Any, x: Any) -> Prediction:
    """Mean and variance of every step of a Gaussian chain given its whole series."""
    chain = chain_of(model.spec)
    if chain is None:
        raise UnsupportedMethod("smooth is for graphs with a Gaussian chain; see fit.responsibilities")
    mean, variance = (np.asarray(part) for part in _smoothed(model, q, x))
    return Prediction(mean[..., 0], variance[..., 0]) if chain.scalar else Prediction(mean, variance)


# ---- the bound, node by node --------------------------------------------------------------------------------


def bound_terms(model: GraphModel, q: Posterior, data: Data) -> dict[str, float]:
    """The bound, node by node: E log p(node | parents), plus the entropy of a latent; they sum to the bound."""
    return {name: float(value) for name, value in _bound_terms(model, q, data).items()}


@eqx.filter_jit
def _bound_terms(model: GraphModel, q: Posterior, data: Data) -> dict[str, Array]:
    m = means(q.blocks)
    terms = {
        name: jnp.sum(prior_terms(p, m, name)) + jnp.sum(q.blocks[name].entropy()) for name, p in model.prior.items()
    }
    names = [v.name for v in model.spec if v.random and model.spec.local(v) and v.kind != "markov_chain"]
    counted = [n for n in names if model.spec[n].observed or n in model.spec.summed_out]

    def block(part: Any, _: Array) -> tuple[dict[str, Array], tuple[()]]:
        x, weights, local = part
        here = m | means(local)
        alone = here
        hidden = scores(model, here, x)
        chain = chain_of(model.spec)
        here = here | (means(hidden) if chain is None else {chain.name: expected_steps(model, here, x, whole=False)})

        def total(strengths: dict[str, Array]) -> Array:
            scope = Scope(model.spec, model.constants, here, x)
            return jnp.sum(weights * model.evaluate(scope, strengths=strengths))

        value, each = jax.value_and_grad(total)({name: jnp.ones(()) for name in counted})
        rest = value - sum(each.values(), start=jnp.zeros(()))
        found = dict(each)
        for name, p in model.local_prior(x).items():
            prior, entropy = prior_terms(p, here, name), local[name].entropy()
            axes = tuple(range(1, prior.ndim))
            found[name] = jnp.sum(weights * (jnp.sum(prior, axis=axes) + jnp.sum(entropy, axis=axes)))
        for name, family in hidden.items():
            prior = Scope(model.spec, model.constants, here, x).affine(name, here[name])
            found[name] = jnp.sum(weights * (prior + family.entropy()))
        if chain is not None:
            # The prior and the entropy of a chain together: the entropies of its steps do not add up to its entropy.
            found[chain.name] = jnp.sum(weights * model.log_evidence(alone, x)) - value
        if model.spec.summed_out:
            # The rest is the entropy of the summed-out latents, and the prior of chains.
            together = ", ".join(model.spec.summed_out)
            found[together] = found.get(together, jnp.zeros(())) + rest
        return found, ()

    local_terms, _ = over_blocks(block, (data.values, data.weights, q.locals), *data.cuts)
    return terms | local_terms


# ---- tables ---------------------------------------------------------------------------------------------------


def table(model: GraphModel, q: Posterior, data: Data) -> dict[str, list[Any]]:
    """One row for each member of each block."""
    rows: dict[str, list[Any]] = {"variable": [], "member": [], "posterior": []}
    for name, block in q.blocks.items():
        family = block.inner if isinstance(block, Point) else block
        columns = {key: np.asarray(value) for key, value in family.described().items()}
        for index in np.ndindex(*family.batch_shape):
            rows["variable"].append(name)
            rows["member"].append(", ".join(map(str, index)))
            words = [f"{key} {_short(value[index])}" for key, value in columns.items()]
            rows["posterior"].append(", ".join(words))
    return rows


def _short(value: Any) -> str:
    return np.array2string(np.asarray(value), precision=3, separator=" ", max_line_width=10_000).replace("\n", "")
