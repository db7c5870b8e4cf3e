"""Whether q covers one labelling of the parts or all of them.

With a prior that treats the parts alike, message passing may end at a *broken* q, which describes one of K! equal
modes, or at a *symmetric* one, which covers all labellings at once: its ln s needs no correction, and it has no labels
to decode. The sum over all permutations of the Bhattacharyya coefficient ∫ √(q · permuted q) is 1 or K!.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...models import Model
from ...models._factors import Blocks, log_normaliser

MOST_PARTS = 6  # largest number of parts whose permutations are enumerated


class Overlap(NamedTuple):
    log_sum: float  # log Σ over permutations of the coefficient
    missing: float  # log of the number of labellings that ln s leaves out
    kind: str  # "broken", "symmetric" or "between"

    @property
    def sentence(self) -> str:
        if self.kind == "symmetric":
            return "q covers all labellings at once: no ln K! is missing, and the numbers of the parts mean nothing"
        if self.kind == "broken":
            return f"q describes one labelling: the evidence of all of them is {self.missing:.3f} higher"
        return f"q overlaps with itself under other labellings: about {self.missing:.3f} of ln K! is missing"


def label_overlap(model: Model, blocks: Blocks) -> Overlap | None:
    """The overlap; None where the prior distinguishes the parts, or there are too many."""
    symmetry = model.symmetry
    if symmetry is None or symmetry.alike is None or len(symmetry.parts) != 1:
        return None
    (parts,) = symmetry.parts
    if not 2 <= parts.size <= MOST_PARTS:
        return None
    whole = float(log_normaliser(blocks))
    logs = []
    for order in itertools.permutations(range(parts.size)):
        other = parts.rearranged(dict(blocks), jnp.asarray(order))
        middle = jax.tree.map(lambda a, b: 0.5 * (a + b), blocks, other)
        logs.append(float(log_normaliser(middle)) - whole)
    log_sum = float(np.logaddexp.reduce(logs))
    most = math.lgamma(parts.size + 1)
    kind = "broken" if log_sum < 0.05 else "symmetric" if log_sum > most - 0.05 else "between"
    return Overlap(log_sum, most - log_sum, kind)
