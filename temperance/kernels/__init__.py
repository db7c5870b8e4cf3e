"""Engines: the sums that autodiff of `log_evidence` gives, faster, for a stated case (Numba, or Pallas on a GPU)."""

import temperance.models  # noqa: F401 (models and the kernels they call import each other: models come first)
