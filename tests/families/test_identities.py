"""What holds for every family, over thousands of random members, typical and extreme.

Tolerances come from the conditioning, not from experience: the mean is known to the change that one rounding of
η makes in it, |H|·size(η)·ε, and so what `from_mean` can recover is known to |H⁻¹| times that.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import temperance as tp
from tests.families.compiled import compiled, look
from tests.families.coordinates import EPS
from tests.families.registry import EXAMPLES, LONG, PARAMETERS, Example
from tests.tiers import with_slow

SLACK = 128.0  # roundings that a computation may add up


def assert_within(error: np.ndarray, allowed: np.ndarray, what: str) -> None:
    excess = np.abs(error) / np.maximum(allowed, np.finfo(float).tiny)
    assert np.all(excess <= 1), f"{what}: {np.nanmax(excess):.3g} times what rounding allows"


def mean_doubt(found: dict[str, np.ndarray]) -> np.ndarray:
    """What one rounding of η, and one of the terms of the result, change in the mean."""
    change = np.einsum("nij,nj->ni", np.abs(found["hessian"]), found["size"])
    return SLACK * EPS * (change + found["terms"])


def check(example: Example, seed: int, extreme: bool) -> None:
    rng = np.random.default_rng(seed)
    family, other = (example.draw(rng, example.batch, extreme) for _ in range(2))
    found = look(example, family)
    assert np.all(found["proper"])
    gradient, doubt = compiled(example)["gradient"](family), mean_doubt(found)
    if example.chain:
        terms = example.chain(family)
        doubt[:, : terms.shape[-1]] += SLACK * EPS * terms
    assert_within(gradient - found["mean"], doubt, "∇A against the mean")
    found["doubt"] = hessian_doubt(example, family, found, rng)
    check_hessian(example, found)
    check_round_trip(example, family, other, found, extreme)
    check_divergence(example, family, other, found)


def hessian_doubt(
    example: Example, family: tp.Family, found: dict[str, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """How far the Hessian can be trusted: it is compared with those of parameters whose last digits differ."""
    doubt = SLACK * EPS * found["second_terms"]
    for _ in range(3 if example.batch > 2 else 1):
        step = SLACK * EPS * found["size"] * rng.choice([-1.0, 1.0], found["size"].shape)
        moved = look(example, compiled(example)["move"](family, step))["hessian"]
        change = np.abs(moved - found["hessian"])
        doubt += 4 * np.maximum(change, change.swapaxes(-1, -2))
    return doubt


def check_hessian(example: Example, found: dict[str, np.ndarray]) -> None:
    second = found["hessian"]
    assert_within(second - second.swapaxes(-1, -2), found["doubt"], "symmetry of the Hessian")
    lowest, noise = scaled_spectrum(found)[1:3]
    assert_within(np.minimum(lowest[:, 0], 0), noise, "positive semidefinite")


def scaled_spectrum(found: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Units, eigenvalues, their doubt, and eigenvectors of the Hessian with its diagonal scaled to one.

    The units of the coordinates differ by many orders of magnitude.
    """
    unit = np.sqrt(np.diagonal(np.abs(found["hessian"]) + found["doubt"], axis1=-2, axis2=-1))
    unit = np.where(unit > 0, unit, 1.0)
    scaled, doubt = (found[name] / unit[:, :, None] / unit[:, None, :] for name in ("hessian", "doubt"))
    values, vectors = np.linalg.eigh(0.5 * (scaled + scaled.swapaxes(-1, -2)))
    return unit, values, np.linalg.norm(doubt, axis=(-2, -1)), vectors


def check_round_trip(
    example: Example, family: tp.Family, other: tp.Family, found: dict[str, np.ndarray], extreme: bool
) -> None:
    functions = compiled(example)
    guess = functions["mix"](family, other, 0.1)
    for start, again in (("cold", functions["cold"](family)), ("warm", functions["warm"](family, guess))):
        returned = look(example, again)
        doubt = mean_doubt(found) + mean_doubt(returned)
        assert_within(returned["mean"] - found["mean"], doubt, f"mean(from_mean(m)) = m, {start}")
        if example.minimal:
            bound = inverse_bound(found)
            target = 1e-8 * found["size"]
            if not extreme and example.batch > 2:
                share = np.mean(bound <= target)
                assert share > 0.9, f"only {share:.0%} of typical parameters are conditioned for 1e-8"
            error = returned["eta"] - found["eta"]
            assert_within(error, np.maximum(target, bound), f"from_mean(mean), {start}")


def inverse_bound(found: dict[str, np.ndarray]) -> np.ndarray:
    """|H⁻¹| times the doubt about the mean; infinite where H is singular to working precision."""
    unit, values, noise, vectors = scaled_spectrum(found)
    usable = values[:, :1] > 2 * noise[:, None]
    inverse = np.abs((vectors / np.where(usable, values, 1.0)[:, None, :]) @ vectors.swapaxes(-1, -2))
    bound = np.einsum("nij,nj->ni", inverse / unit[:, :, None] / unit[:, None, :], mean_doubt(found))
    return np.where(usable, bound, np.inf)


def check_divergence(example: Example, family: tp.Family, other: tp.Family, found: dict[str, np.ndarray]) -> None:
    theirs = look(example, other)
    step = found["eta"] - theirs["eta"]
    bregman = np.sum(step * found["mean"], axis=-1) - found["value"] + theirs["value"]
    terms = np.abs(step * found["mean"]) + sum(np.abs(f["mean"]) * f["size"] for f in (found, theirs))
    rounding = SLACK * EPS * (np.sum(terms, axis=-1) + np.abs(found["value"]) + np.abs(theirs["value"]))
    divergence = np.asarray(compiled(example)["kl"](family, other))
    assert np.all(divergence >= 0)
    assert_within(np.minimum(bregman, 0), rounding, "KL ≥ 0")
    assert_within(divergence - bregman, rounding, "KL is the Bregman divergence")
    assert_within(compiled(example)["kl"](family, family), rounding, "KL(q‖q) = 0")


LARGE = (*LONG, "Normal-5", "NormalWishart-5", "Product", "Wishart-5")
SLOW = {
    "typical": ("Dirichlet-5", *LARGE),
    "extreme": ("Beta", "Independent", "IsotropicNormalGamma-3", "NormalWishart-1", "Wishart-1", *LARGE),
}


@pytest.mark.parametrize(
    ("kind", "example"),
    with_slow(
        [(kind, example) for kind in SLOW for example in EXAMPLES],
        *((kind, name) for kind in SLOW for name in SLOW[kind]),
        name=lambda kind, example: (kind, repr(example)),
    ),
    ids=str,
)
def test_members(kind: str, example: Example) -> None:
    @settings(max_examples=example.runs, phases=(Phase.generate,))  # a smaller seed is not a simpler example
    @given(seed=st.integers(0, 2**32 - 1))
    def batch(seed: int) -> None:
        check(example, seed, kind == "extreme")

    batch()


@pytest.mark.parametrize(
    "example", with_slow(PARAMETERS, "Normal-5", "NormalWishart-5", "Product", "Wishart-5", name=repr), ids=repr
)
def test_divergence_is_the_curvature_along_the_path(example: Example) -> None:
    """KL(η‖η′) = ∫₀¹ (1 − s) ΔᵀH(η + sΔ)Δ ds with Δ = η′ − η, by Gauss–Legendre: a KL in any dimension."""
    rng = np.random.default_rng(0)
    family, far = (example.draw(rng, example.batch, False) for _ in range(2))
    functions = compiled(example)
    other = functions["mix"](family, far, 1e-3)
    step = np.asarray(other.natural.features() - family.natural.features())
    nodes, weights = np.polynomial.legendre.leggauss(16)
    total = 0.0
    for s, weight in zip(0.5 * (nodes + 1), 0.5 * weights, strict=True):
        second = look(example, functions["mix"](family, other, s))["hessian"]
        total = total + weight * (1 - s) * np.einsum("ni,nij,nj->n", step, second, step)
    found = look(example, family)
    rounding = SLACK * EPS * np.sum(np.abs(found["mean"]) * found["size"], axis=-1)
    assert_within(functions["kl"](family, other) - total, rounding + 1e-8 * total, "KL against its integral")
