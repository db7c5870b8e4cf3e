"""Notes about symmetries of a graph that inference could not break by itself, and how the start breaks them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..families._family import Family
from .spec import Spec
from .start import products


def symmetries(spec: Spec, constants: dict[str, Any]) -> list[str]:
    remarks = []
    for q in spec:
        if q.latent and q.discrete:
            chosen = [g.parent("of") for g in spec if g.kind == "gate" and g.parent("index") == q.name]
            blocks = sorted({name for of in chosen for name in spec.ancestors(of)})
            if blocks and all(_exchangeable(constants.get(name)) for name in blocks):
                what = " and ".join(repr(name) for name in blocks)
                remarks.append(
                    f"the {q.size} values of {q.name!r} are exchangeable (the prior of {what} is the same for all): a "
                    "start at random tells them apart, and others may do so in another order"
                )
    pairs = sorted(products(spec))
    if pairs:
        what = ", ".join(repr(name) for name in pairs)
        remarks.append(
            f"products of latents ({what}) are the same with both signs changed, and zero is a place they cannot "
            "leave: they start at a draw"
        )
    return remarks


def _exchangeable(prior: Any) -> bool:
    if not isinstance(prior, Family):
        return True  # the prior of a child of other variables is the same for all members
    if not prior.batch_shape:
        return True
    leaves = jax.tree.leaves(prior.natural)
    return all(np.allclose(np.asarray(leaf), np.asarray(leaf)[:1], rtol=1e-12, atol=0.0) for leaf in leaves)
