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


class PartitionFailed(TemperanceError, RuntimeError):
    """A partition cannot be read or treated; the `message` names it, and `number` is its place, from 0."""

    def __init__(self, message: str, number: int | None = None):
        super().__init__(message, number)
        self.number = number

    def __str__(self) -> str:
        return str(self.args[0])


class ForkedProcess(TemperanceError, RuntimeError):
    """A forked process cannot use JAX, which its parent had used before."""


class ClusterLost(TemperanceError, ConnectionError):
    """The cluster went away in the middle of a run."""
