"""Variational Bayes of short linear Gaussian state spaces in NumPy, with LAPACK's factors of banded matrices.

With expected parameters in place of A, C and the precisions, all states together are Gaussian with a precision matrix
that is block-tridiagonal, so banded. Its Cholesky factor L, and the factor U of this matrix with time reversed, hold
what a Kalman smoother needs: with J_t the blocks on the diagonal and −G_t those below it,

    Cov(z_t)⁻¹ = L_t L_tᵀ + U_t U_tᵀ − J_t,        Cov(z_t, z_{t−1}) = Cov(z_t) G_t (L_{t−1} L_{t−1}ᵀ)⁻¹.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..models._blocks import Posterior
from ..numerics.host import lapack
from ..numerics.keys import is_host, uniforms
from ..numerics.special import LOG_2PI
from .small_linear import (
    Blocks,
    Leaves,
    Prior,
    Rows,
    advance,
    corners,
    host_prior,
    is_known,
    leap,
    means,
    normals,
    of_rows,
    plus,
    principal_loadings,
    split,
    stacked,
)

if TYPE_CHECKING:
    from ..models import Data
    from ..models.linear.state_space import StateSpace

NAME, GOES_ON = "small state space (numpy)", True
_NUMBERS = 2**16  # states at all steps: beyond it the compiled sweep is worth its compilation
_STATES = 6  # most states: the matrices of a step are worked on entry by entry


def when(method: Any, model: StateSpace, data: Data) -> bool:
    """Whether this engine runs the method: plain coordinate ascent by `tp.VB` on few steps."""
    from ..inference.variational.coordinate import VB

    steps = data.values.real.size
    return (
        type(method) is VB
        and data.engine == "auto"
        and method.batches is None
        and model.n_states <= _STATES
        and steps * model.n_states <= _NUMBERS
        and is_known(model.prior)
        and not data.is_spread
        and is_host()
        and jax.default_backend() == "cpu"
    )


def start(method: Any, model: StateSpace, data: Data, keys: Any, kinds: tuple[str, ...] = ()) -> Posterior:
    """`VB.init` of every restart."""
    problem = _problem(model, data)
    return stacked([problem.start(key) for key in np.asarray(jax.random.key_data(keys))])


def chunk(
    method: Any, model: StateSpace, data: Data, keys: Any, carry: Any, limit: Any, tol: Any, hold: Any
) -> tuple[Any, dict[str, np.ndarray]]:
    problem = _problem(model, data)
    unit = float(problem.steps.seen @ np.log(np.asarray(model._scale())))
    return advance(lambda q: leap(problem.sweep, q), method.finished, unit, carry, limit, tol, hold)


# ---- the data ------------------------------------------------------------------------------------------------------


class Steps(NamedTuple):
    """All series one after the other, with their sums; w is the weight of the series that a step belongs to."""

    kinds: np.ndarray  # (s, d + 4): which columns are seen; 1 where a step moves, is followed, starts, is padding
    features: np.ndarray  # (s, ·): x, seen · offset, moves · u, follows · u of the next step
    weights: np.ndarray  # (s,)
    weighted_kinds: np.ndarray  # (d + 4, s), times w
    weighted_features: np.ndarray  # (·, s), times w
    columns: int  # d
    controls: int  # columns of u that the states depend on
    seen: np.ndarray  # (d,) Σ w seen
    squares: np.ndarray  # (d,) Σ w x²
    cross: np.ndarray  # (d, v) Σ w x offset; the offset holds controls and a one, or nothing where C is known
    offsets: np.ndarray  # (d, v, v) Σ w seen offset offsetᵀ
    inputs: np.ndarray  # (q, q) Σ w moves u uᵀ
    totals: np.ndarray  # (4,) Σ w of the last four kinds

    @property
    def values(self) -> np.ndarray:
        """x, with NaN for missing values."""
        return np.where(self.kinds[:, : self.columns] > 0.0, self.features[:, : self.columns], np.nan)


def _steps(model: StateSpace, data: Data, offsets: int, controls: int) -> Steps:
    n, t, d = np.shape(data.values.x)
    x, real = np.asarray(data.values.x), np.asarray(data.values.real)
    seen_steps = ~np.isnan(real)
    moves = seen_steps.copy()
    moves[:, 0] = False
    follows = np.concatenate([moves[:, 1:], np.zeros((n, 1), dtype=bool)], axis=1)
    seen = ~np.isnan(x).reshape((-1, d))
    each = [seen, *(kind.reshape((-1, 1)) for kind in (moves, follows, seen_steps & ~moves, ~seen_steps))]
    kinds = np.concatenate(each, axis=1).astype(np.float64)
    share, moving, followed = kinds[:, :d], kinds[:, d, None], kinds[:, d + 1, None]
    x = np.where(seen, x.reshape((-1, d)), 0.0)
    u = np.asarray(data.values.controls).reshape((n * t, -1))
    v = np.concatenate([u, np.ones((n * t, 1))], axis=1)[:, :offsets]
    u = u[:, :controls]
    after = np.concatenate([u[1:], np.zeros((1, controls))])
    features = np.concatenate([x, *(share * one[:, None] for one in v.T), moving * u, followed * after], axis=1)
    w = np.repeat(np.asarray(data.weights), t)
    weighted_kinds = np.ascontiguousarray((kinds * w[:, None]).T)
    return Steps(
        kinds, features, w, weighted_kinds, np.ascontiguousarray((features * w[:, None]).T), d, controls, w @ share,
        w @ np.square(x), (x.T * w) @ v, np.einsum("td,tv,tw->dvw", share * w[:, None], v, v),
        (moving * u).T @ (u * w[:, None]), weighted_kinds[d:].sum(axis=1),
    )  # fmt: skip


# ---- expected statistics of the states ----------------------------------------------------------------------------


class Moments(NamedTuple):
    value: float  # the log of the integral over all states, weighted
    mean: np.ndarray  # (s, k)
    second: np.ndarray  # (d + 4, k, k): Σ w E[z zᵀ] over the steps of each kind
    pairs: np.ndarray  # (k, k): Σ w E[z_t z_{t−1}ᵀ]


Entries = list[list[np.ndarray]]  # of a matrix at each step, on and below the diagonal


def _moments(steps: Steps, linear: np.ndarray, blocks: np.ndarray, coupling: np.ndarray, valued: bool) -> Moments:
    """Moments of the states, given h_t (`linear`) and the precisions J_t = kinds @ `blocks` (kinds, k, k); the value is
    0 unless `valued`."""
    (s, k), d = linear.shape, steps.columns
    try:
        forwards = _factor_band(steps.kinds, _band(blocks, -coupling, d + 1))
        backwards = _factor_band(steps.kinds[::-1], _band(blocks[:, ::-1, ::-1], -coupling.T[::-1, ::-1], d))
    except np.linalg.LinAlgError:
        return Moments(np.nan, np.full((s, k), np.nan), np.full(blocks.shape, np.nan), np.full((k, k), np.nan))
    mean = lapack().dpbtrs(forwards, linear.reshape((-1, 1)), lower=1)[0].reshape((s, k))
    ahead, behind = (band.T.reshape((s, k, 2 * k)) for band in (forwards, backwards))
    factor = [[ahead[:, j, i - j] for j in range(i + 1)] for i in range(k)]
    found, reverse = _square(factor), _square([[behind[::-1, j, i - j] for j in range(i + 1)] for i in range(k)])
    here = (blocks.reshape((-1, k * k)).T @ steps.kinds.T).reshape((k, k, s))
    precision = [[found[i][j] + reverse[k - 1 - j][k - 1 - i] - here[i, j] for j in range(i + 1)] for i in range(k)]
    covariance, before = _filled(_inverse(_factor(precision))), _filled(_inverse(factor))
    row = np.ascontiguousarray(mean.T)
    second = (covariance + row[:, None] * row[None]).reshape((k * k, s))
    moving = steps.weighted_kinds[d, 1:]
    tables = (covariance.reshape((k * k, s))[:, 1:] * moving) @ before.reshape((k * k, s))[:, :-1].T
    pairs = np.einsum("iabj,ab->ij", tables.reshape((k, k, k, k)), coupling) + (moving * row[:, 1:]) @ mean[:-1]
    sums = (steps.weighted_kinds @ second.T).reshape(blocks.shape)
    if not valued:
        return Moments(0.0, mean, sums, pairs)
    value = (0.5 * linear * mean - np.log(ahead[:, :, 0])) @ np.ones(k) + 0.5 * k * LOG_2PI
    return Moments(float(steps.weights @ value), mean, sums, pairs)


def _factor_band(kinds: np.ndarray, band: np.ndarray) -> np.ndarray:
    """The Cholesky factor of the precision of all states, as LAPACK stores it; each kind of step adds its `band`."""
    k = band.shape[1]
    whole = (kinds @ band.reshape((len(band), -1))).reshape((-1, 2 * k))
    factor, failed = lapack().dpbtrf(whole.T, lower=1, overwrite_ab=1)
    if failed:
        raise np.linalg.LinAlgError
    return factor


def _band(blocks: np.ndarray, below: np.ndarray, kind: int) -> np.ndarray:
    """For each kind of step (a row), the entries on and below the diagonal of its columns, as LAPACK stores a band;
    `below` is the block below the diagonal block, for steps of this `kind`."""
    k = blocks.shape[1]
    band = np.zeros((len(blocks), k, 2 * k))
    for column in range(k):
        band[:, column, : k - column] = blocks[:, column:, column]
        band[kind, column, k - column : 2 * k - column] = below[:, column]
    return band


def _factor(matrix: Entries) -> Entries:
    """The Cholesky factor L of the matrix of each step."""
    factor: Entries = []
    for i, row in enumerate(matrix):
        factor.append([])
        for j in range(i):
            rest = row[j] - sum(factor[i][a] * factor[j][a] for a in range(j)) if j else row[j]
            factor[i].append(rest / factor[j][j])
        factor[i].append(np.sqrt(row[i] - sum(entry * entry for entry in factor[i]) if i else row[i]))
    return factor


def _square(factor: Entries) -> Entries:
    """L Lᵀ for the factor L of each step."""
    return [
        [sum((factor[i][a] * factor[j][a] for a in range(1, j + 1)), factor[i][0] * factor[j][0]) for j in range(i + 1)]
        for i in range(len(factor))
    ]


def _inverse(factor: Entries) -> Entries:
    """(L Lᵀ)⁻¹ = L⁻ᵀ L⁻¹."""
    k = len(factor)
    half: Entries = []
    for i in range(k):
        own = 1.0 / factor[i][i]
        half.append([-own * sum(factor[i][a] * half[a][j] for a in range(j, i)) for j in range(i)] + [own])
    return [[reduce(np.add, [half[a][i] * half[a][j] for a in range(i, k)]) for j in range(i + 1)] for i in range(k)]


def _filled(entries: Entries) -> np.ndarray:
    """Matrices with both triangles, (k, k, s), from their lower triangles."""
    return np.array([[entries[max(i, j)][min(i, j)] for j in range(len(entries))] for i in range(len(entries))])


# ---- a walk and a sweep --------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    model: Any
    steps: Steps
    prior: Prior
    known: dict[str, Leaves]  # statistics of what is not learned
    initial: np.ndarray  # variance of the first state
    kept: dict[str, Any]  # see `means`

    def sweep(self, q: Blocks) -> tuple[Blocks, float]:
        """`Model.sweep`."""
        rows = [name for name, eta in q.items() if eta[1].ndim > 1]
        rest = [name for name in q if name not in rows]
        m, entropy = means(q, self.kept)
        local, messages = self.walk(m)
        bound = self.prior.value(m) + local + entropy
        fresh = {name: plus(self.prior.gradient(m, name), messages.get(name)) for name in rows or rest}
        if rows and rest:
            m |= means(fresh, self.kept)[0]
            messages = self.walk(m, valued=False)[1] if set(rest) - {"relevance"} else {}
            fresh |= {name: plus(self.prior.gradient(m, name), messages.get(name)) for name in rest}
        return {name: fresh[name] for name in q}, bound

    def rows(self, m: Blocks, name: str, noise: str) -> Rows:
        first, half = m.get(name) or self.known[name]
        return Rows(first, -(half + half.swapaxes(1, 2)), m.get(noise) or self.known[noise])

    def walk(self, m: Blocks, valued: bool = True) -> tuple[float, Blocks]:
        """`Model.walk`: the local value (0 unless `valued`), and the messages."""
        k, d = len(self.initial), self.steps.columns
        seen, move = self.rows(m, "observation", "noise"), self.rows(m, "dynamics", "state_noise")
        scaled = seen.noise[1][:, None, None] * seen.second
        kinetic = (move.noise[1] @ move.second.reshape((k, -1))).reshape(move.second.shape[1:])
        coupling = move.noise[1][:, None] * move.first
        blocks = np.zeros((d + 4, k, k))
        blocks[:d], blocks[d + 1] = scaled[:, :k, :k], kinetic[:k, :k]
        blocks[[d, d + 2, d + 3], np.arange(k)[:, None], np.arange(k)[:, None]] = np.stack(
            [move.noise[1], 1.0 / self.initial, np.ones(k)], axis=1
        )
        slopes = [seen.noise[1][:, None] * seen.first[:, :k], *(-scaled[:, k:, :k].swapaxes(0, 1))]
        linear = self.steps.features @ np.concatenate([*slopes, coupling[:, k:].T, -kinetic[k:, :k]])
        found = _moments(self.steps, linear, blocks, coupling[:, :k], valued)
        constant = self._constant(seen, move, scaled, kinetic) if valued else 0.0
        return found.value + constant, self._messages(seen, move, found)

    def _constant(self, seen: Rows, move: Rows, scaled: np.ndarray, kinetic: np.ndarray) -> float:
        """The terms of the local value that do not depend on the states."""
        steps, k = self.steps, len(self.initial)
        moves, _, starts, padding = steps.totals
        value = 0.5 * (steps.seen @ (seen.noise[0] - LOG_2PI) - seen.noise[1] @ steps.squares)
        value += np.vdot(seen.noise[1][:, None] * seen.first[:, k:], steps.cross)
        value -= 0.5 * (np.vdot(scaled[:, k:, k:], steps.offsets) + np.vdot(kinetic[k:, k:], steps.inputs))
        value += 0.5 * (moves * move.noise[0].sum() - starts * np.log(self.initial).sum())
        return float(value - 0.5 * k * LOG_2PI * (moves + starts + padding))

    def _messages(self, seen: Rows, move: Rows, found: Moments) -> Blocks:
        steps, (d, width), k = self.steps, seen.first.shape, len(self.initial)
        sums = steps.weighted_features @ found.mean
        last = len(sums) - 2 * steps.controls
        beside = sums[d:last].reshape((width - k, d, k)).swapaxes(0, 1)
        product = np.concatenate([sums[:d], steps.cross], axis=1)
        square = corners(found.second[:d], beside, steps.offsets)
        messages = of_rows("observation", "noise", seen, product, square, steps.seen, steps.squares)
        own, after = sums[last : last + steps.controls], sums[last + steps.controls :]
        product = np.concatenate([found.pairs, own.T], axis=1)
        square = corners(found.second[d + 1 : d + 2], after[None], steps.inputs[None])
        squares, number = np.diagonal(found.second[d]), np.full(k, steps.totals[0])
        messages |= of_rows("dynamics", "state_noise", move, product, square, number, squares)
        return {name: message for name, message in messages.items() if name not in self.known}

    # ---- the start -----------------------------------------------------------------------------------------

    def start(self, key: np.ndarray) -> Blocks:
        """`principal_start` of `models/linear/factor_coordinates.py`, by the same random numbers."""
        key_c, key_a, key_v = split(key, 3)
        scale, k, prior = np.asarray(self.model._scale()), len(self.initial), self.prior.fixed
        d, count = len(scale), self.steps.seen
        number = float(self.steps.weights @ (1.0 - self.steps.kinds[:, -1]))
        shake = np.exp(0.5 * normals(key_v, k + d))
        variance = 0.5 * np.square(scale) * shake[k:]
        blocks: Blocks = {}
        if "noise" in prior:
            blocks["noise"] = plus(prior["noise"], (0.5 * count, -0.5 * count * variance))
        if "state_noise" in prior:
            half = np.full(k, 0.5 * number)
            spread = 0.1 * np.mean(np.square(scale)) * shake[:k]
            blocks["state_noise"] = plus(prior["state_noise"], (half, -half * spread))
        if "dynamics" not in self.known:
            persistence = np.maximum(0.3, uniforms(key_a[None], k)[0] * (0.95 - 0.3) + 0.3)
            rows = np.concatenate([np.diag(persistence), np.zeros((k, self.model.n_controls))], axis=1)
            blocks["dynamics"] = _around(rows, np.full(k, 1.0 + number))
        if "observation" not in self.known:
            c = self._loadings(key_c, scale)
            if "relevance" in prior:
                found = np.full(k, 0.5 * d), -0.5 * np.square(c).sum(axis=0)
                blocks["relevance"] = plus(prior["relevance"], found)
            rows = np.concatenate([c * scale[:, None], np.zeros((d, self.model.n_controls + 1))], axis=1)
            blocks["observation"] = _around(rows, (1.0 + count) / variance)
        return {name: blocks[name] for name in sorted(blocks)}

    def _loadings(self, key: np.ndarray, scale: np.ndarray) -> np.ndarray:
        k, steps = len(self.initial), self.steps
        if k > len(scale):
            return 0.5 * normals(key, len(scale), k)
        return principal_loadings(key, steps.values, steps.weights * (1.0 - steps.kinds[:, -1]), scale, k)[0]


def _around(rows: np.ndarray, precision: np.ndarray) -> Leaves:
    return precision[:, None] * rows, precision[:, None, None] * np.eye(rows.shape[1])


def _problem(model: StateSpace, data: Data) -> Problem:
    known: dict[str, Leaves] = {}
    for name in ("dynamics", "observation"):
        if name not in model.prior:
            rows = np.asarray(getattr(model.known, name))
            known[name] = rows, -0.5 * rows[:, :, None] * rows[:, None]
    for name in ("noise", "state_noise"):
        if name not in model.prior:
            variance = np.asarray(getattr(model, name))
            known[name] = -np.log(variance), 1.0 / variance
    offsets = 0 if "observation" in known else model.n_controls + 1
    steps = _steps(model, data, offsets, 0 if "dynamics" in known else model.n_controls)
    return Problem(model, steps, host_prior(model.prior), known, np.asarray(model.start), {})
