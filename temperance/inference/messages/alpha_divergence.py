"""α-divergence message passing: expectation propagation (α = 1), variational Bayes (α = 0) and everything between.

Every factor p(x_n | θ) is approximated by s̃_n exp⟨η̃_n, t(θ)⟩, while the prior stays exact; their product is s·q(θ),
so that ln s approximates the log evidence. A pass refreshes every factor once against the product of the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ..._arguments import Checks, choice, number, optional, whole
from ...errors import InvalidData, NumericalFailure, UnsupportedMethod
from ...kernels import RunEngine
from ...models import Data, Model, Posterior
from ...models._answers import Enumerable, Sited, summed
from ...models._factors import (
    Blocks,
    Factored,
    Factors,
    exact_prior,
    is_proper,
    log_normaliser,
    naturals,
    with_naturals,
)
from .._method import Info, Method, Result, Run, state_of
from ..collapsed import settled
from ..streamed import Streamed
from .start import wrong_prior
from .sweep import Passed, Sites, empty_sites, factor_order, factors_of, one_pass
from .together import Together, hierarchical

PASSES, PASSES_TOGETHER = 100, 1000  # default maximum: factors refreshed one by one, and all at once
LEAST_ALPHA = 1e-4  # below this α, differences of log normalisers divided by α are rounding errors


class Approximation(eqx.Module):
    """s·q(θ) as a product of factors."""

    blocks: Blocks  # q
    prior: Blocks  # the factor of the prior, deliberately wrong at first (`start.py`)
    corrected: Bool[Array, ""]  # whether the right prior factor is in place
    sites: Sites
    log_evidence: Float[Array, ""]  # ln s
    warm: Info  # history of the first passes, if they ran at another α


@dataclasses.dataclass(frozen=True)
class MessagePassing(Method):
    """Message passing: each factor of the model is approximated in turn, with the least α-divergence that q allows.

    A run ends when q moves by less than `tol` (the root of a symmetrised KL divergence) in one pass. `restarts` is the
    number of random starts, of which the best is kept.

    `alpha` is 1 for expectation propagation, 0 for variational Bayes; above 1 the projection may not exist, which
    is checked. A factor whose cavity is improper is skipped; a run that skipped one in its last pass has not
    converged. There are at most `max_passes`, by default 100 for mixtures and 1000 where all factors are refreshed at
    once. `damping` (0 to 1) is the share of the old message kept in each update, by default none for mixtures and
    one half for chains and graphs, whose factors are refreshed all at once. `schedule` is "random", a new
    order of the factors for each pass, or "sequential". At α = 0 the first `warm_passes` are at α = 1, so that no
    component is pruned by the first datum. With `trace` the history has ln s after every single update. One pass
    (`max_passes=1`) is assumed-density filtering; the data may then be a `tp.Stream`.
    """

    alpha: float = 1.0
    restarts: int = 1
    max_passes: int | None = None
    tol: float = 1e-5
    damping: float | None = None
    schedule: str = "random"
    warm_passes: int = 2
    trace: bool = False

    budget: ClassVar[tuple[str, ...]] = ("restarts", "max_passes")
    row_by_row: ClassVar[bool] = True
    checks: ClassVar[Checks] = {
        "alpha": number("a number 0, or from 1e-4 up", lambda alpha: alpha == 0 or alpha >= LEAST_ALPHA),
        "restarts": whole(1),
        "max_passes": optional(whole(1)),
        "tol": number("a number at least 0", lambda tol: tol >= 0),
        "damping": optional(number("a number at least 0 and below 1", lambda kept: 0 <= kept < 1)),
        "schedule": choice("random", "sequential"),
        "warm_passes": whole(0),
    }

    @property
    def name(self) -> str:
        return "EP" if self.alpha == 1 else f"message passing (α = {self.alpha:g})"

    @property
    def passes(self) -> int:
        return PASSES if self.max_passes is None else self.max_passes

    @property
    def _warm(self) -> int:
        """The passes at α = 1 that come first."""
        return min(self.warm_passes, self.passes) if self.alpha == 0 else 0

    @property
    def max_iter(self) -> int:
        return self.passes - self._warm

    def prepare(self, model: Model) -> Model:
        if isinstance(model, Sited):
            return model
        model = summed(model)
        return model if by_points(model) else require_factors(self.name, model)

    @property
    def streams(self) -> bool:  # type: ignore[override]
        return self.max_passes == 1

    def complete(self, model: Model, data: Any) -> Any:
        if not one_by_one(model) and (isinstance(data, Streamed) or self.trace):
            raise UnsupportedMethod(
                f"streams and trace=True are for mixtures without missing values or a shared covariance, whose factors "
                f"{self.name} refreshes one after the other; "
                f"for this {type(model).__name__} give the data as an array and leave out the trace, or use tp.SVI()"
            )
        if isinstance(data, Streamed):
            from .filtering import Filtering

            pieces = -(-data.size // data.stream.piece_rows)
            return Filtering(1.0 if self._warm else self.alpha, self.restarts, pieces, self.schedule)
        require_whole(self.name, data)
        if isinstance(model, Sited):
            from .scalar_sites import ScalarPassing

            damping = self.damping or 0.0
            return ScalarPassing(self.alpha, self.restarts, self.passes, self.tol, damping, self.schedule)
        if not one_by_one(model):
            from .by_points import MOST_DATA, ByPoints

            kept = 0.5 if self.damping is None else self.damping
            passes = PASSES_TOGETHER if self.max_passes is None else self.max_passes
            pointwise = by_points(model)
            if pointwise and data.size > MOST_DATA:
                raise UnsupportedMethod(
                    f"{self.name} averages every factor of this {type(model).__name__} over points, for at most "
                    f"{MOST_DATA} data, got {data.size}; use tp.VB() or tp.AIS()"
                )
            kind = ByPoints if pointwise else Together
            return kind(self.alpha, self.restarts, passes, kept, self.warm_passes)
        # The compiled function must not depend on the budget, so it counts the warm passes that remain.
        return dataclasses.replace(self, warm_passes=self._warm)

    def host_engine(self, model: Model, data: Any) -> RunEngine | None:
        if self.alpha != 1.0 or not one_by_one(model):
            return None
        from ...kernels import small_passes

        return small_passes.ENGINE if small_passes.when(self, model, data) else None

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> Approximation:
        assert isinstance(model, Enumerable)
        factors = factors_of(model, data)
        key_prior, key_order = jax.random.split(key)
        wrong = wrong_prior(key_prior, model, data, factors.each)
        sites = empty_sites(wrong, data.weights.shape[0])
        state = Approximation(wrong, wrong, jnp.asarray(False), sites, jnp.zeros(()), {})
        if self._warm == 0:
            return state

        def warm(state: Approximation, key: Key[Array, ""]) -> tuple[Approximation, Info]:
            return self._pass(1.0, key, model, factors, state)

        state, infos = jax.lax.scan(warm, state, jax.random.split(key_order, self._warm))
        return eqx.tree_at(lambda state: state.warm, state, infos)

    def step(self, key: Key[Array, ""], model: Model, state: Approximation, data: Data) -> tuple[Approximation, Info]:
        assert isinstance(model, Enumerable)
        fresh, info = self._pass(self.alpha, key, model, factors_of(model, data), state)
        fresh = eqx.tree_at(lambda fresh: fresh.warm, fresh, state.warm)
        settled = (info["change"] <= self.tol) & (info["skipped"] == 0) & info["corrected"] & state.corrected
        return fresh, info | {"done": settled}

    def _pass(
        self, alpha: float, key: Key[Array, ""], model: Enumerable, factors: Factors, state: Approximation
    ) -> tuple[Approximation, Info]:
        order = factor_order(key, factors.live.shape[0], self.schedule)
        passed = one_pass(alpha, self.damping or 0.0, factors, state.blocks, state.sites, order, self.trace)
        fresh = put_together(model, state, passed)
        moved = jnp.sqrt(distance(fresh.blocks, state.blocks))
        info = {
            "log_evidence": fresh.log_evidence,
            "change": jnp.maximum(moved, jnp.abs(fresh.log_evidence - state.log_evidence)),
            "skipped": passed.skipped,
            "corrected": fresh.corrected,
        }
        if passed.trace is not None:
            # Padding rows come last and change nothing; `conclude` drops them.
            seen = jnp.argsort(~factors.live[order], stable=True)
            info["trace"] = passed.trace[seen] - log_normaliser(state.prior)
        return fresh, info

    def result(self, model: Model, data: Data, run: Run) -> Result:
        return conclude(self, data, run)

    def corrected_log_evidence(
        self, model: Model, data: Data, state: Posterior, details: Mapping[str, Any], order: int = 2
    ) -> float:
        from .corrections import corrected, log_scales, orders, orders_together, third_order

        if "sites" not in details:
            raise UnsupportedMethod("the correction needs the message of every datum, which a stream does not keep")
        if isinstance(model, Sited):
            return self._corrected_by_numbers(model, data, state, details["sites"], order)
        if not isinstance(model, Factored) or not model.linear_factors or by_points(model):
            raise UnsupportedMethod(
                f"the correction needs factors that are finite sums of conjugate terms, which this "
                f"{type(model).__name__} has not; see tp.AIS()"
            )
        sites, alone = details["sites"], one_by_one(model)
        if order == 3 and model.chained:
            raise UnsupportedMethod(
                "the third order is for data with latents of their own, not for chains; use order=2"
            )
        if alone:
            found = orders(model, data, state.blocks, sites)  # type: ignore[arg-type]
        else:
            found = orders_together(self.alpha, model, data, state.blocks, sites)
        if order == 2:
            return corrected(found)
        messages = sites.natural if alone else sites
        scales = sites.log_scale if alone else log_scales(self.alpha, model, data, state.blocks, sites)
        return corrected((found[0], *third_order(model, data, state.blocks, messages, scales)))

    def _corrected_by_numbers(self, model: Sited, data: Data, state: Posterior, sites: Any, order: int) -> float:
        from .corrections import corrected
        from .scalar_corrections import second_order
        from .scalar_sites import ScalarPassing

        if order == 3 or self.alpha != 1.0 or set(state.blocks) != {model.sited}:
            raise UnsupportedMethod(
                f"the correction for {type(model).__name__} is of order 2, at alpha=1, and for weights with a known "
                "prior and known noise; see tp.AIS()"
            )
        method, nothing = self.complete(model, data), jnp.zeros(())
        assert isinstance(method, ScalarPassing)
        log_s = method.log_evidence(model, dict(state.blocks), sites, data)
        return corrected((log_s, nothing, second_order(model, data, state.blocks[model.sited], sites), nothing))


def put_together(model: Enumerable, state: Approximation, passed: Passed) -> Approximation:
    """Prior times sites after a pass. The true prior replaces the wrong one as soon as the result is proper."""
    total = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), passed.sites.natural)

    def times_sites(prior: Blocks) -> Blocks:
        # Summed afresh, because a running sum of differences would accumulate rounding errors.
        return with_naturals(prior, jax.tree.map(jnp.add, naturals(prior), total))

    right, wrong = exact_prior(model), state.prior
    correct = is_proper(times_sites(right))
    blocks, prior = jax.tree.map(
        lambda a, b: jnp.where(correct, a, b), (times_sites(right), right), (times_sites(wrong), wrong)
    )
    log_s = jnp.sum(passed.sites.log_scale) + log_normaliser(blocks) - log_normaliser(prior)
    return Approximation(blocks, prior, correct, passed.sites, log_s, {})


def distance(left: Blocks, right: Blocks) -> Float[Array, ""]:
    """The symmetrised KL divergence, ⟨η − η′, μ − μ′⟩."""
    total = jnp.zeros(())
    for name, family in left.items():
        step = family.natural - right[name].natural
        total = total + jnp.sum(step.dot(family.mean() - right[name].mean()))
    return jnp.maximum(total, 0.0)


def conclude(method: MessagePassing, data: Data, run: Run) -> Result:
    """The converged restart with the highest ln s. If none converged, the best restart that skipped nothing, and a
    note.

    A run whose cavities stay improper skips its factors, stops moving and only looks converged; its ln s is
    meaningless and can exceed the truth, so it never wins.
    """
    history = _joined_history(run)
    if method.trace:
        history["trace"] = history["trace"][..., : data.size]
    evidence = np.asarray(run.states.log_evidence)
    skipped, change = history["skipped"][-1], history["change"][-1]
    converged = run.converged & np.isfinite(evidence)
    if method.alpha > 1 and (skipped > 0).all():
        raise NumericalFailure(
            f"alpha={method.alpha:g} asks for projections that do not exist here: α·cavity + (1 − α)·q was improper "
            f"for at least {int(skipped.min())} of the {data.size} data in every restart; use alpha of at most 1"
        )
    # Candidates from the best kind to the worst; within a kind the highest ln s.
    kinds = np.where(converged, 2, np.where(skipped == 0, 1, 0))
    best = int(np.lexsort((evidence if kinds.max() > 0 else -change, kinds))[-1])
    passes = _passes_taken(method, history, best) if converged[best] else history["change"].shape[0]
    notes = () if converged[best] else (_not_converged(method, int(skipped[best]), float(change[best])),)
    state = state_of(run.states, best)
    return Result(
        state=Posterior(state.blocks, {}),
        log_evidence=float(evidence[best]),
        history={name: values[:passes, best] for name, values in history.items()} | {"restarts": evidence},
        converged=bool(converged[best]) and not run.interrupted,
        details={
            "restarts_converged": converged,
            "restarts_skipped": skipped,
            "skipped": int(skipped[best]),
            "change": float(change[best]),
            "sites": state.sites,
        },
        notes=notes,
    )


def _joined_history(run: Run) -> dict[str, np.ndarray]:
    warm = {name: np.swapaxes(np.asarray(values), 0, 1) for name, values in run.states.warm.items()}
    if not run.history:
        return warm
    steps = {name: np.asarray(values) for name, values in run.history.items()}
    return {name: np.concatenate([warm[name], values]) if warm else values for name, values in steps.items()}


def _passes_taken(method: MessagePassing, history: dict[str, np.ndarray], restart: int) -> int:
    """The passes until this restart had converged; the loop continues until all have."""
    still = (history["change"][:, restart] <= method.tol) & (history["skipped"][:, restart] == 0)
    return int(np.argmax(still & history["corrected"][:, restart])) + 1


def _not_converged(method: MessagePassing, skipped: int, change: float) -> str:
    if method.max_passes == 1:
        return "one pass is assumed-density filtering, not iterated to convergence: ln s depends on the order"
    return (
        f"no restart converged in {method.passes} passes (in the last one q moved by {change:.2g} and {skipped} "
        "factors were skipped), so ln s is not that of a fixed point: try damping=0.5, more restarts, fewer "
        "components or tp.EP(double_loop=True)"
    )


def by_points(model: Model) -> bool:
    """Whether the factors of this model are not finite sums, but can be averaged over points."""
    if isinstance(model, Factored) and not settled(model).no_factors():
        return False
    from .by_points import suits

    return suits(model)


def one_by_one(model: Model) -> TypeGuard[Enumerable]:
    """Whether the model is a mixture whose factors are refreshed one after the other."""
    return isinstance(model, Enumerable) and model.one_by_one and not hierarchical(model)


def require_factors(name: str, model: Model) -> Factored:
    """Refuse a model whose factors are not finite sums of conjugate terms."""
    kind, works = type(model).__name__, "tp.VB() and tp.Gibbs() work"
    if not isinstance(model, Factored):
        raise UnsupportedMethod(
            f"{name} is for models whose factors are finite sums of conjugate terms, and this {kind} declares none; "
            f"{works}"
        )
    if reason := settled(model).no_factors():
        raise UnsupportedMethod(f"{name} cannot treat this {kind}: {reason}; {works}")
    return model


def require_whole(name: str, data: Data) -> None:
    """Refuse weights other than 0 and 1: a factor is either present or absent."""
    weights = np.asarray(data.weights)
    other = weights[(weights != 0) & (weights != 1)]
    if other.size:
        raise InvalidData(f"weights must be 0 or 1 for {name}, found {other[0]:g}; repeat rows, or use tp.VB()")
