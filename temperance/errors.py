"""The errors a user can meet. Each message names what was given, what was found and what is accepted."""

from __future__ import annotations


class TemperanceError(Exception):
    """Base of every error raised on purpose."""


class InvalidParameter(TemperanceError, ValueError):
    """An argument of a family, model or method is outside its domain."""


class InvalidData(TemperanceError, ValueError):
    """The data cannot be used as they are."""


class UnsupportedMethod(TemperanceError, TypeError):
    """The method does not apply to this model."""


class NumericalFailure(TemperanceError, ArithmeticError):
    """A computation reached an impossible state (a NaN, a collapsed component)."""


class BoundDecreased(NumericalFailure):
    """The evidence lower bound fell by more than rounding: the update is not a coordinate ascent."""


class DamagedFile(TemperanceError, ValueError):
    """A saved file is damaged, foreign or of an unknown version."""
