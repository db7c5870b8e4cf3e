"""Gamma and its derivatives to forty digits, with nothing but the standard library: slow and beyond doubt."""

from decimal import Decimal, getcontext
from fractions import Fraction
from functools import cache
from math import comb

getcontext().prec = 50
_SHIFT = 60
_TERMS = 25
# Machin's formula would do; forty-nine digits are shorter.
_PI = Decimal("3.1415926535897932384626433832795028841971693993751")


@cache
def _bernoulli(n: int) -> Fraction:
    if n == 0:
        return Fraction(1)
    return -sum((comb(n + 1, k) * _bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)


def _even_bernoulli(k: int) -> Decimal:
    number = _bernoulli(2 * k)
    return Decimal(number.numerator) / Decimal(number.denominator)


def _shifted(x: float | Decimal) -> tuple[Decimal, list[Decimal]]:
    """x moved to where the asymptotic series is exact, and the steps that led there."""
    start = Decimal(x)
    return start + _SHIFT, [start + i for i in range(_SHIFT)]


def log_gamma(x: float | Decimal) -> Decimal:
    y, steps = _shifted(x)
    series = sum(_even_bernoulli(k) / (2 * k * (2 * k - 1) * y ** (2 * k - 1)) for k in range(1, _TERMS))
    stirling = (y - Decimal("0.5")) * y.ln() - y + (2 * _PI).ln() / 2 + series
    return stirling - sum((step.ln() for step in steps), Decimal(0))


def digamma(x: float | Decimal) -> Decimal:
    y, steps = _shifted(x)
    series = sum(_even_bernoulli(k) / (2 * k * y ** (2 * k)) for k in range(1, _TERMS))
    return y.ln() - 1 / (2 * y) - series - sum((1 / step for step in steps), Decimal(0))


def trigamma(x: float | Decimal) -> Decimal:
    y, steps = _shifted(x)
    series = sum(_even_bernoulli(k) / y ** (2 * k + 1) for k in range(1, _TERMS))
    return 1 / y + 1 / (2 * y * y) + series + sum((1 / (step * step) for step in steps), Decimal(0))
