"""Whether to trust a fit: convergence, mixing and calibration."""
