"""Switching linear dynamics: hidden states that evolve by one of several linear laws, chosen by a Markov chain.

    s_2 ~ π,   s_t ~ A_(s_(t−1)),   z_1 ~ N(0, start),   z_t ~ N(F_(s_t) z_(t−1), Λ_(s_t)⁻¹),   x_t ~ N(C z_t, 1/τ)

The posterior is a mixture of as many Gaussians as there are paths of regimes. The structured approximation is
q(s) q(z) q(θ), a Markov chain and a Gaussian chain in turn: given q(s), the states are integrated out by a Kalman
smoother in its natural form; given that, the path of regimes is a local block, a Markov chain with a table for each
step.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from ..._arguments import check_choice, check_count
from ...data import as_weights
from ...errors import InvalidData, InvalidParameter
from ...families import Dirichlet, Family, Gamma, GammaVector, MatrixNormalWishart, Point, WeightsAndPrecision
from ...families.matrix_normal_wishart import LinearGaussian
from ...families.paths import Paths, PathsVector
from ...numerics.gaussian_chains import linked_integral
from ...numerics.linalg import cholesky, symmetrise, transposed_solve_vector
from ...numerics.place import on_device
from ...numerics.special import LOG_2PI
from .._about import STATE, Symmetry, Words, one_set
from .._answers import Smoothing
from .._data import Data, make_data
from .._model import Conditional, Group, Means, Model, Posterior, Powers, means
from . import each, gamma_or_positive, positive, stack
from .series import Series, as_series

_LOCAL_STEPS = 50  # updates of both chains in turn, for new series
# Default variances of the states' noise and of the data's noise, relative to the variance of the data's steps.
_LAW, _NOISE = 0.3, 0.03


class RegimePrior(Conditional):
    """p(s | π, A) of every series: its log is linear in E log π and E log A, and it is normalised."""

    parents: tuple[str, ...] = eqx.field(static=True, default=("initial", "transitions"))
    shape: tuple[int, int] = eqx.field(static=True, kw_only=True)  # series, and moves after the first

    def natural(self, m: Means) -> PathsVector:
        n, t = self.shape
        first, moves = m["initial"].log, m["transitions"].log
        return PathsVector(
            jnp.broadcast_to(first[None], (n, *first.shape)), jnp.broadcast_to(moves[None, None], (n, t, *moves.shape))
        )

    def log_normaliser(self, m: Means) -> Float[Array, " n"]:
        return jnp.zeros(self.shape[0])

    def family(self, natural: PathsVector) -> Paths:
        return Paths.from_natural(natural)


class Smoothed(NamedTuple):
    """The posterior of each series: the probability of each regime at every move (series, steps − 1, regimes), and the
    mean and variance of every state (series, steps, states)."""

    regimes: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


class SwitchingStateSpace(Smoothing, Model):
    """`n_states` hidden states that move by one of `n_regimes` linear laws; the data are a table (steps, columns), or a
    list of them, all of one length.

    `n_regimes` is the number of linear laws. `n_states` is the number of hidden states. `dynamics` is a
    `tp.MatrixNormalWishart` over (F, Λ), one or one for each regime, or known ones: a `tp.WeightsAndPrecision` of
    arrays (regimes, states, states). `observation` is the known matrix C, by default the identity; `noise` a `tp.Gamma`
    over the precision of one, or of each, column, or known variances. `concentration` is the Dirichlet parameter of the
    rows of A, a number or a matrix, `initial_concentration` that of π, and `start` the variance of the first state.
    Defaults follow the scale of the data: the laws and the start that of the states, as far as the data show them, and
    the noise that of the data's steps. `missing="marginalise"` lets NaN stand for a missing value.
    """

    prior: dict[str, Family | Conditional]  # complete once there are data
    known: WeightsAndPrecision | None
    given: MatrixNormalWishart | None
    observation: Float[Array, "d k"] | None
    noise: Gamma | Array | None
    start: Float[Array, " k"] | None
    n_regimes: int = eqx.field(static=True)
    n_states: int = eqx.field(static=True)
    missing: bool = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    local_groups: ClassVar[tuple[Group, ...]] = (("regimes",),)

    def __init__(
        self,
        n_regimes: int,
        n_states: int,
        *,
        dynamics: MatrixNormalWishart | WeightsAndPrecision | None = None,
        observation: ArrayLike | None = None,
        noise: Gamma | ArrayLike | None = None,
        concentration: ArrayLike = 1.0,
        initial_concentration: ArrayLike = 1.0,
        start: ArrayLike | None = None,
        missing: str | None = None,
    ):
        self.n_regimes, self.n_states = check_count("n_regimes", n_regimes), check_count("n_states", n_states)
        self.missing = check_choice("missing", missing, {None: False, "marginalise": True})
        k, p = self.n_regimes, self.n_states
        known = dynamics if isinstance(dynamics, WeightsAndPrecision) else None
        self.known = None if known is None else WeightsAndPrecision(*map(on_device, map(np.asarray, known)))
        shapes = {(k, p, p)} if known is not None else {(p, p), (k, p, p)}
        for part in known or ([] if dynamics is None else [dynamics.natural.cross]):  # type: ignore[union-attr]
            if np.shape(part) not in shapes:
                raise InvalidParameter(f"dynamics must be of shape {max(shapes, key=len)}, got {np.shape(part)}")
        self.given = dynamics if isinstance(dynamics, MatrixNormalWishart) else None
        self.observation = None if observation is None else on_device(np.atleast_2d(np.asarray(observation, float)))
        self.noise = None if noise is None else gamma_or_positive("noise", noise)
        self.start = None if start is None else each("start", positive("start", start), p)
        self.steps = 0
        self.prior = {
            "initial": Dirichlet(np.broadcast_to(np.asarray(initial_concentration, float), (k,))),
            "transitions": Dirichlet(np.broadcast_to(np.asarray(concentration, float), (k, k))),
        }

    # ---- the model ----------------------------------------------------------------------------------------

    @property
    def words(self) -> Words:
        axes = {"initial": ("regime",), "transitions": ("regime", "next_regime"), "noise": ("feature",)}
        axes |= {"dynamics": ("regime", "state", "cause"), "regimes": ("series", "move")}
        axes |= {"x": ("series", "time", "feature")}
        return STATE.of(self.n_regimes, axes)

    @property
    def symmetry(self) -> Symmetry | None:
        if self.known is not None:
            return None  # known laws give every regime its meaning
        axes: dict[str, tuple[int, ...]] = {"initial": (0,), "transitions": (0, 1), "dynamics": (0,)}
        axes |= {"regimes.first": (1,), "regimes.moves": (2, 3)}
        return one_set(self.n_regimes, axes, self.prior, compared=("dynamics", "initial"))

    def local_prior(self, x: Series) -> dict[str, Family | Conditional]:
        return {"regimes": RegimePrior(shape=(x.x.shape[0], x.x.shape[1] - 2))}

    def log_evidence(
        self, m: Means, x: Series, powers: Powers = Powers(), key: Key[Array, ""] | None = None
    ) -> Float[Array, " n"]:
        constant, chain = self.potentials(m, x, powers)
        if key is None:
            return constant + jax.vmap(linked_integral)(*chain)
        return constant + jax.vmap(linked_integral)(*chain, jax.random.split(key, constant.shape[0]))

    def potentials(self, m: Means, x: Series, powers: Powers = Powers()) -> tuple[Array, tuple[Array, Array, Array]]:
        """exp{E log p(x, z | s, θ)}: constants, and the linear terms, precisions and couplings of the states."""
        n, p = x.x.shape[0], self.n_states
        beta, latent = (jnp.broadcast_to(power, (n,))[:, None] for power in powers)
        law, share = self._laws(m), m["regimes"].shares
        cross, inside, after, log_det = (jnp.tensordot(share, part, axes=1) for part in law)
        nothing = jnp.zeros((n, 1, p, p))
        precision_z = jnp.concatenate([nothing, after], axis=1) + jnp.concatenate([inside, nothing], axis=1)
        assert self.start is not None
        precision_z = precision_z.at[:, 0].add(jnp.diag(1.0 / self.start))
        constant_z = jnp.sum(log_det, axis=1) - 0.5 * jnp.sum(jnp.log(self.start)) - 0.5 * x.x.shape[1] * p * LOG_2PI
        assert self.observation is not None
        tau, seen = self._noise(m), ~jnp.isnan(x.x)
        values, here = jnp.where(seen, x.x, 0.0), seen.astype(x.x.dtype)
        linear = (values * tau.value[None, None]) @ self.observation
        precision_x = jnp.einsum("ntd,dk,dl->ntkl", here * tau.value[None, None], self.observation, self.observation)
        each_x = here * (0.5 * (tau.log - LOG_2PI))[None, None] - 0.5 * tau.value[None, None] * jnp.square(values)
        wide = beta[..., None, None], latent[..., None, None]
        chain = beta[..., None] * linear, wide[0] * precision_x + wide[1] * precision_z, wide[1] * cross
        return beta[:, 0] * jnp.sum(each_x, axis=(1, 2)) + latent[:, 0] * constant_z, chain

    def _laws(self, m: Means) -> tuple[Array, Array, Array, Array]:
        """E[ΛF], E[FᵀΛF], E[Λ] and ½ E log|Λ| of every regime."""
        if self.known is not None:
            weights, precision = self.known
            cross = precision @ weights
            log_det = jnp.sum(jnp.log(jnp.diagonal(cholesky(precision), axis1=-2, axis2=-1)), axis=-1)
            return cross, symmetrise(jnp.swapaxes(weights, -1, -2) @ cross), precision, log_det
        law = m["dynamics"]
        return law.cross, -2.0 * symmetrise(law.inputs), -2.0 * symmetrise(law.outputs), law.dof

    def _noise(self, m: Means) -> GammaVector:
        if "noise" in self.prior:
            return m["noise"]
        return GammaVector(-jnp.log(jnp.asarray(self.noise)), 1.0 / jnp.asarray(self.noise))

    def simulate(self, key: Key[Array, ""], draws: dict[str, Any], n: int) -> Series:
        assert self.observation is not None and self.start is not None
        key_s, key_start, key_z, key_x = jax.random.split(key, 4)
        t, p = self.steps, self.n_states
        path = RegimePrior(shape=(n, t - 2))
        logs = {name: self.prior[name].statistics(draws[name]) for name in path.parents}  # type: ignore[union-attr]
        regimes = path.family(path.natural(logs)).sample(key_s)
        weights, precision = draws["dynamics"] if self.known is None else self.known
        factor = cholesky(precision)
        first = jax.random.normal(key_start, (n, p)) * jnp.sqrt(self.start)[None]

        def step(z: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
            s, noise = here
            z = (weights[s] @ z[..., None])[..., 0] + transposed_solve_vector(factor[s], noise)
            return z, z

        rest = jax.lax.scan(step, first, (regimes.T, jax.random.normal(key_z, (t - 1, n, p))))[1]
        z = jnp.swapaxes(jnp.concatenate([first[None], rest]), 0, 1)
        variance = 1.0 / draws["noise"] if "noise" in self.prior else jnp.asarray(self.noise)
        mean = z @ self.observation.T
        x = mean + jax.random.normal(key_x, mean.shape) * jnp.sqrt(variance)[None, None]
        return Series(x, jnp.zeros((n, t, 0)), jnp.ones((n, t)))

    def initial(self, key: Key[Array, ""], data: Data) -> Posterior:
        """A start as if the data showed the states, and the regimes were random stretches of the series."""
        blocks: dict[str, Family] = dict(self.prior)  # type: ignore[arg-type]
        if self.known is None:
            x: Series = data.values
            assert self.observation is not None
            z = jnp.nan_to_num(x.x) @ jnp.linalg.pinv(self.observation).T
            n, moves, p = z.shape[0], z.shape[1] - 1, self.n_states
            often = jax.random.uniform(key, (n, moves)) < 4.0 * self.n_regimes / moves
            stretch = jnp.cumsum(often, axis=1)
            labels = jax.random.randint(jax.random.fold_in(key, 1), (n, moves + 1), 0, self.n_regimes)
            share = jax.nn.one_hot(jnp.take_along_axis(labels, stretch, axis=1), self.n_regimes)
            told = LinearGaussian().statistics((z[:, :-1].reshape((-1, p)), z[:, 1:].reshape((-1, p))))
            flat = share.reshape((-1, self.n_regimes)) * jnp.repeat(data.weights, moves)[:, None]
            seen = jax.tree.map(lambda leaf: jnp.tensordot(flat, leaf, axes=(0, 0)), told)
            blocks["dynamics"] = blocks["dynamics"] + seen
        return Posterior(blocks, self.initial_local(means(blocks), data.values))

    # ---- data in, answers out -----------------------------------------------------------------------------

    def prepare(self, data: Any, weights: Any = None) -> tuple[Self, Data]:
        series = self._series(data)
        model = self._complete(series)
        return model, make_data(series, as_weights(weights, len(series.x)), spread=False, bucketed=False)

    def new_rows(self, data: Any) -> Series:
        return self._series(data, self.observation.shape[0] if self.observation is not None else None)

    def _series(self, data: Any, columns: int | None = None) -> Series:
        series = as_series(data, self.missing, 0, columns)
        if np.isnan(np.asarray(series.real)).any() or series.x.shape[1] < 2:
            raise InvalidData(
                f"all series must have the same number of steps, at least 2, got {sorted(set(series.lengths.tolist()))}"
            )
        return series

    def _complete(self, series: Series) -> Self:
        k, p, d = self.n_regimes, self.n_states, series.x.shape[2]
        observation = jnp.eye(d, p) if self.observation is None else self.observation
        if observation.shape != (d, p):
            raise InvalidParameter(f"observation must have shape {(d, p)}, got {observation.shape}")
        size, step = _sizes(series, np.asarray(observation))
        start = on_device(size) if self.start is None else self.start
        noise, prior = self.noise, {name: self.prior[name] for name in ("initial", "transitions")}
        if noise is None:
            seen = np.square(np.asarray(observation))  # the size in each column of states of unit size
            noise = Gamma(1.0, _NOISE * (seen @ np.minimum(size, step) + ~seen.any(axis=1) * np.max(size)))
        if isinstance(noise, Gamma):
            prior["noise"] = stack("noise", noise, d)
        else:
            noise = each("noise", noise, d)
        if self.known is None:
            law = self.given or MatrixNormalWishart(np.eye(p), np.diag(size), p + 2.0, np.diag(_LAW * step))
            one = law.batch_shape == ()
            prior["dynamics"] = law.with_natural(
                jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (k, *leaf.shape)) if one else leaf, law.natural)
            )
        return self._with(prior=prior, observation=observation, noise=noise, start=start, steps=series.x.shape[1])

    def table(self, q: Posterior, data: Data) -> dict[str, list[Any]]:
        """The regimes, the one with most moves first: their moves, the mean length of a visit, and their laws.

        F has an entry for each pair of states; `noise` is the mean variance of each state's noise."""
        kept = q.locals.get("regimes")  # draws of a sampler leave none
        shares = np.asarray(_smooth(self, q, data.values)[0] if kept is None else kept.mean().shares)
        counts = np.asarray(data.weights) @ shares.sum(axis=1)
        order = np.argsort(-counts, kind="stable")
        moves = q.blocks["transitions"]
        rows = np.asarray(moves.concentration if isinstance(moves, Dirichlet) else moves.mode())
        stay = np.diagonal(rows / rows.sum(axis=1, keepdims=True))
        weights, variances = self._described(q)
        table: dict[str, list[Any]] = {
            "regime": [self.words.label(place) for place in range(self.n_regimes)],
            "moves": [float(counts[k]) for k in order],
            "duration": [float(1.0 / max(1.0 - stay[k], 1e-300)) for k in order],
        }
        table |= {
            f"F[{i + 1}, {j + 1}]": [float(weights[k, i, j]) for k in order] for i, j in np.ndindex(weights.shape[1:])
        }
        return table | {f"noise {i + 1}": [float(variances[k, i]) for k in order] for i in range(self.n_states)}

    def _described(self, q: Posterior) -> tuple[np.ndarray, np.ndarray]:
        """The mean of F, and the variances of the states' noise, for every regime."""
        if self.known is not None:
            return np.asarray(self.known.weights), np.diagonal(np.linalg.inv(self.known.precision), axis1=1, axis2=2)
        block = q.blocks["dynamics"]
        if isinstance(block, Point):
            weights, precision = block.mode()
            return np.asarray(weights), np.diagonal(np.linalg.inv(precision), axis1=1, axis2=2)
        assert isinstance(block, MatrixNormalWishart)
        spare = np.asarray(block.dof)[:, None] - self.n_states - 1.0  # E[Λ⁻¹] = scatter/(dof − d − 1), where it exists
        scatter = np.diagonal(np.asarray(block.scatter), axis1=1, axis2=2)
        return np.asarray(block.location), scatter / np.where(spare > 0.0, spare, np.asarray(block.dof)[:, None])

    def smooth(self, q: Any, x: Series) -> Smoothed:
        return Smoothed(*map(np.asarray, _smooth(self, q, x)))


def _sizes(series: Series, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean squares of the states and of their steps, as far as the data show them."""
    seen = np.asarray(series.x)
    z = np.where(np.isnan(seen), 0.0, seen) @ np.linalg.pinv(observation).T
    z = np.where(np.isnan(seen).any(axis=2)[..., None], np.nan, z)
    if np.isnan(z).all():
        return np.ones(z.shape[2]), np.ones(z.shape[2])
    size = np.nanmean(np.square(z), axis=(0, 1))
    size = np.where(size > 0.0, size, np.max(size) if np.max(size) > 0.0 else 1.0)
    steps = np.square(np.diff(z, axis=1))
    step = size if np.isnan(steps).all() else np.nanmean(steps, axis=(0, 1))
    return size, np.where(step > 0.0, step, size)


@eqx.filter_jit
def _smooth(model: SwitchingStateSpace, q: Posterior, x: Series) -> tuple[Array, Array, Array]:
    m = means(q.blocks)
    local = model.ascend_local(m, x, Powers(), model.initial_local(m, x), _LOCAL_STEPS)
    shares = means(local)
    linear, precision, couplings = model.potentials(m | shares, x)[1]
    mean, second = jax.vmap(jax.grad(linked_integral, argnums=(0, 1)))(linear, precision, couplings)
    variance = jnp.diagonal(-2.0 * second, axis1=-2, axis2=-1) - jnp.square(mean)
    return shares["regimes"].shares, mean, variance
