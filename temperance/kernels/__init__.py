"""Engines: the sums that autodiff of `log_evidence` gives, faster, for a stated case (Numba, or Pallas on a GPU)."""
