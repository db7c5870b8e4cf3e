"""Turning what users have into arrays: one place, used by Python, the estimators and the command line alike."""

from .arrays import as_matrix, as_weights

__all__ = ["as_matrix", "as_weights"]
