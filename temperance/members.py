"""The answers of a fit of groups: the membership of rows, profiles of the groups, and regressions on and of
membership."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import UnsupportedMethod
from .models import Posterior
from .models._answers import Numbered, Profiling, require

if TYPE_CHECKING:
    from .diagnostics.three_step import Effects
    from .models.mixture.columns import Profiles
    from .report.co_membership import CoMembership


class Members:
    """The part of `Fit` for models whose data belong to components, classes or states; `self` is the fit."""

    @property
    def order(self: Any) -> np.ndarray:
        """The places in `posterior` of the components (states, topics, factors) in use, the largest first: component 1
        (group A, topic 1) of tables, pictures and files is `order[0]`. Topics with seeds come before all others."""
        return require(self.model, Numbered).order(self._families(), self.data)

    def membership(self: Any, x_new: Any) -> dict[str, list[Any]]:
        """For each row its number, its id where the table has ids, its component (or group), and the probabilities of
        all that hold data, the largest first: columns of a table."""
        from .report.membership import membership

        return membership(self, x_new)

    def co_membership(self: Any, most: int = 300) -> CoMembership:
        """The probability that two fitted rows belong together, however the components are numbered: `probability` for
        each pair of at most `most` of the rows (`rows`, in the order of their components), and `between`, the mean over
        a row of one component and another row of another (or the same) one."""
        from .report.co_membership import co_membership

        return co_membership(self, most)

    def profiles(self: Any, level: float = 0.95) -> Profiles:
        """The profiles of the components (or groups): the share of each, and for every column its mean, rate or
        probabilities within each, with intervals of this `level`; `.to_frame()` is a pandas frame."""
        names = tuple(column.name for column in self.schema.used) if self.schema is not None else ()
        found = require(self.model, Profiling).profiles(self._families(), self.data, level, names)
        if found is None:
            raise UnsupportedMethod(f"{self.method.name} has no intervals for {type(self.model).__name__}; tp.VB() has")
        return found

    def contributions(self: Any) -> dict[str, float]:
        """How many nats better the classes describe each column of a table than one class would, given the membership
        of the rows, the most telling column first. A column with a value near 0 or below does not distinguish the
        classes."""
        found = require(self.model, Profiling).contributions(self.state) if isinstance(self.state, Posterior) else None
        if found is None:
            raise UnsupportedMethod(f"{self.method.name} does not tell what the columns of {type(self.model).__name__} "
                                    "contribute; tp.VB() does for tp.ClassMixture")  # fmt: skip
        return found

    def classes_by(
        self: Any, covariates: Any, *, reference: Any = None, correction: str = "three-step", level: float = 0.95,
        replicates: int = 100,
    ) -> Effects:  # fmt: skip
        """Membership of the rows that were fitted regressed on `covariates` (a frame, a dictionary of columns or an
        array), as log odds against the class of `reference` (the largest). `correction` for errors of classification is
        "three-step", "two-step", "one-step" or "none"; intervals are from `replicates` of the Bayesian bootstrap."""
        from .diagnostics.three_step import classes_by

        return classes_by(self, covariates, reference, correction, level, replicates)

    def outcome_by_class(
        self: Any, outcome: Any, covariates: Any = None, *, correction: str = "three-step", level: float = 0.95,
        replicates: int = 100,
    ) -> Effects:  # fmt: skip
        """The mean of an `outcome` in each class (or the probabilities of its levels), at the mean of the `covariates`.
        `correction` for errors of classification is "three-step" (BCH) or "none"; intervals come from the Bayesian
        bootstrap of all steps with this many `replicates`, or with 0 from the last step alone."""
        from .diagnostics.three_step import outcome_by_class

        return outcome_by_class(self, outcome, covariates, correction, level, replicates)
