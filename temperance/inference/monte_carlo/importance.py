"""Importance sampling with a fitted posterior as the proposal: evidence, weighted draws, and a verdict on the fit."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from ..._arguments import Check, Checks, number, whole
from ...errors import InvalidParameter
from ...evidence.bracket import WIDTH
from ...evidence.optima import distinct
from ...evidence.tempered import Estimate
from ...evidence.weights import controlled, effective_draws, halves, one_draw, pareto_khat, upwards
from ...evidence.witnesses import contradictions
from ...families import Point
from ...models import Data, Model, Posterior
from ...models._answers import summed
from .._method import Again, Info, Method, Result, Run, state_of
from ..progress import Progress
from ..run import run as run_loop
from ._support import require_distributions, require_statistics
from .draws import Draws
from .local_weights import log_joint
from .proposal import Proposal, affordable, propose
from .reference import widened
from .uncovered import uncovered
from .visited import visited
from .witness import search

TRUSTED = 0.7  # k̂ up to which averages over the weights can be trusted (Vehtari et al., 2024)
ALIKE = 0.7  # share of effective draws from which the tail does not matter
FEWEST = 30  # effective draws below which a standard error is unreliable
SEARCHES = 24  # starts of VB that look for modes
OPTIMA = 8  # optima in the proposal at most
WIDER = (2.0, 4.0)  # factors by which copies of each optimum are moved towards the prior, to cover its tails
SEEN = 128  # conditionals of Gibbs chains in the proposal at most
BATCH = 64  # draws in one step
MANY = 1000  # draws of which too few are worth something because of the proposal, and not of their number


@dataclasses.dataclass(frozen=True)
class ImportanceSampling(Method):
    """`draws` of a fitted posterior, weighted to the true one.

    `draws` is the number of draws. The proposal is a mixture of the conditionals that Gibbs chains from random starts
    have drawn from, of every optimum that restarts of `tp.VB` find, each as it is and widened towards the prior,
    because a variational posterior is too narrow, and of `proposal`, where one is given: a fit by a method with
    families as its posterior (`tp.VB`, `tp.EP`, …), or such a method, to be run first. A part `defensive` of the draws
    comes from the prior instead, so that weights are bounded. Where parts of the model can change places the proposal
    covers all their orders (up to ten components of a mixture, six states of a hidden Markov model). Latents that
    cannot be summed out, such as the shares of topics in a document, are drawn from their variational posterior given
    the parameters; with many data the weights then vary much.

    The densities of the proposal's parts are control variates of the estimate. Other Gibbs chains look for what the
    proposal misses. Where they or the weights speak against it, bridge sampling and parallel tempering take its place;
    with `fallback=False`, or a `proposal`, they do not.
    """

    draws: int = 4096
    proposal: Any = None
    defensive: float = 0.05
    fallback: bool = True
    density: Proposal | None = dataclasses.field(default=None, repr=False)
    notes: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    lower: float = dataclasses.field(default=-np.inf, repr=False)  # the highest variational bound that was found

    budget: ClassVar[tuple[str, ...]] = ("draws", "fallback", "notes", "lower")
    one_mode: ClassVar[bool] = False
    replaced: ClassVar[str] = "does not cover the posterior, so this is by {}"
    checks: ClassVar[Checks] = {
        "draws": whole(2),
        "defensive": number("between 0 and 1", lambda part: 0 < part < 1),
        "fallback": Check("True or False", lambda value: isinstance(value, bool)),
    }

    @property
    def name(self) -> str:
        return "importance sampling"

    @property
    def max_iter(self) -> int:
        return -(-self.draws // BATCH)

    def prepare(self, model: Model) -> Model:
        return summed(require_distributions(model, self.name))

    def complete(self, model: Model, data: Data) -> Self:
        require_statistics(model)
        posteriors, bounds, lower = self._fitted(model, data)
        wide = [widened(model, blocks, times) for times in WIDER for blocks in posteriors]
        seen = visited(model, data, affordable(model, SEEN))
        density, notes = propose(model, [*posteriors, *wide], np.tile(bounds, 1 + len(WIDER)), seen, self.defensive)
        fallback = self.fallback and self.proposal is None
        return dataclasses.replace(
            self, density=density, proposal=None, fallback=fallback, notes=tuple(notes), lower=lower
        )

    def _fitted(self, model: Model, data: Data) -> tuple[list[dict[str, Any]], np.ndarray, float]:
        """The posteriors to propose from: the given one and every other optimum that restarts of VB find; what weighs
        them; and the highest bound of VB. A mode that the given fit has missed cannot be seen in its own weights."""
        done = search(model, data, SEARCHES)
        chosen = distinct(done.bounds + float(model.units.log_unit(data)))[:OPTIMA]
        found = [state_of(done.states, restart).blocks for restart in chosen]
        bounds = done.bounds[chosen]
        lower = float(bounds[0])
        if self.proposal is not None:
            given = self._given(model, data)
            return [given, *found], np.concatenate([bounds[:1], bounds]), lower
        return found, bounds, lower

    def _given(self, model: Model, data: Data) -> dict[str, Any]:
        if isinstance(self.proposal, Method):
            method = self.proposal.complete(self.proposal.prepare(model), data)
            done = run_loop(method, model, data, jax.random.key(0), Progress(False))
            state = method.result(model, data, done).state
        else:
            state = getattr(self.proposal, "state", None)
        blocks = state.blocks if isinstance(state, Posterior) else {}
        if set(blocks) != set(model.prior) or any(isinstance(b, Point) for b in blocks.values()):
            raise InvalidParameter(
                "proposal must be a fit whose posterior is families, such as tp.VB's, or a method that gives one, got "
                f"{self.proposal!r}"
            )
        shapes = [np.shape(leaf) for leaf in jax.tree.leaves(blocks)]
        if shapes != [np.shape(leaf) for leaf in jax.tree.leaves(self._like(model))]:
            raise InvalidParameter("proposal must be a fit of the same model and data")
        return blocks

    def _like(self, model: Model) -> dict[str, Any]:
        from ..point.laplace import families

        return {name: family for name, family in families(model).items()}

    def init(self, key: Key[Array, ""], model: Model, data: Data) -> tuple[()]:
        return ()

    def step(self, key: Key[Array, ""], model: Model, state: tuple[()], data: Data) -> tuple[tuple[()], Info]:
        density = self.density
        assert density is not None

        def one(key: Key[Array, ""]) -> tuple[Any, Array, Array]:
            draws = density.sample(key, model)
            value, log_probs = (
                log_joint(jax.random.fold_in(key, 0), model, draws, data),
                density.log_probs(model, draws),
            )
            together = density.together(log_probs)
            return draws, value - together, log_probs - together

        draws, log_weight, log_ratios = jax.vmap(one)(jax.random.split(key, BATCH))
        return state, {"draws": draws, "log_weight": log_weight, "log_ratios": log_ratios}

    def result(self, model: Model, data: Data, run: Run) -> Result:
        def one_chain(leaf: Any) -> np.ndarray:
            # (steps, 1, batch, …) → (1, draws, …)
            leaf = np.swapaxes(np.asarray(leaf), 0, 1)
            return leaf.reshape((1, -1, *leaf.shape[3:]))[:, : self.draws]

        log_weights = one_chain(run.history["log_weight"])
        # A draw of the prior may lie where the likelihood underflows, or overflow itself: its weight is zero, and the
        # best draw stands in its place.
        lost = np.isnan(log_weights)
        log_weights = np.where(lost, -np.inf, log_weights)
        kept = np.where(lost[0], np.argmax(log_weights[0]), np.arange(log_weights.shape[1]))
        log_ratios = np.where(lost[0, :, None], -np.inf, one_chain(run.history["log_ratios"])[0])
        khat, draws = pareto_khat(log_weights[0]), effective_draws(log_weights[0])
        estimate = controlled(log_weights[0], log_ratios)
        doubts = self._doubts(log_weights[0], estimate, khat, draws)
        notes = [*self.notes, *doubts]
        return Result(
            state=Draws(
                jax.tree.map(lambda leaf: one_chain(leaf)[:, kept], run.history["draws"]), jnp.asarray(log_weights)
            ),
            log_evidence=estimate.log_evidence,
            history={"log_weight": log_weights[0]},
            converged=not doubts and not run.interrupted,
            details={
                "standard_error": estimate.standard_error,
                "khat": khat,
                "effective_draws": draws,
                "log_weights": log_weights[0],
                "estimates": {"average": upwards(log_weights[0]), "control variates": estimate},
            },
            notes=tuple(notes),
        )

    def improve(self, key: Key[Array, ""], model: Model, data: Data, result: Result, again: Again) -> Result:
        """The result with a bracket, if chains that are independent of the proposal find nothing that it misses."""
        if not result.converged or self.notes or model.local_groups or self.draws < MANY:
            return result
        assert self.density is not None and result.log_evidence is not None
        doubt = uncovered(key, model, data, self.density, result.details["log_weights"], result.log_evidence)
        # What no draw has met leaves no trace in the standard error; a bracket has room for it.
        width = WIDTH * float(np.hypot(result.details["standard_error"], one_draw(result.details["log_weights"])))
        return result._replace(
            converged=not doubt,
            bracket=None if doubt else (result.log_evidence - width, result.log_evidence + width),
            notes=(*result.notes, f"no bracket: {doubt}; use tp.ParallelTempering") if doubt else result.notes,
        )

    def instead(self, model: Model, result: Result | None) -> tuple[Method, ...]:
        from .elsewhere import without_proposal

        fair = result is not None and result.converged
        return () if fair or not self.fallback or self.draws < MANY else without_proposal()

    def _doubts(self, log_weights: np.ndarray, estimate: Estimate, khat: float, draws: float) -> list[str]:
        """The doubts about the estimate. The shape of the tail alone is not a test: a missed mode leaves no trace in
        it, and for nearly equal weights it has no meaning."""
        heavy = khat > TRUSTED and draws < ALIKE * len(log_weights)
        if draws < FEWEST or heavy:
            return [
                f"the weights are worth {draws:.0f} of {len(log_weights)} draws and the largest have a Pareto shape of "
                f"{khat:.2f}: the proposal misses a part of the posterior, and the estimate is more likely too low "
                "than its error says; use tp.ParallelTempering"
            ]
        return contradictions(estimate, halves(log_weights), [("the bound of VB", self.lower)])


jax.tree_util.register_dataclass(
    ImportanceSampling,
    data_fields=["density"],
    meta_fields=[field.name for field in dataclasses.fields(ImportanceSampling) if field.name != "density"],
)
