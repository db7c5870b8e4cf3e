"""Which examples of a parametrised test are slow, written beside the test."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def itself(*arguments: Any) -> Any:
    """The name of an example unless told otherwise: its one argument, or all of them."""
    return arguments[0] if len(arguments) == 1 else arguments


def with_slow(examples: Iterable[Any], *slow: Any, name: Callable[..., Any] = itself) -> list[Any]:
    """The examples as parameters; those whose name is among `slow` run only in `make test-slow`.

    An example is one argument, a tuple of several, or a `pytest.param`, which keeps its marks. A name in `slow` that
    no example has is an error: it would mark nothing.
    """
    parameters = [example if hasattr(example, "marks") else _parameter(example) for example in examples]
    unknown = set(slow) - {name(*parameter.values) for parameter in parameters}
    assert not unknown, f"no example is named {unknown}"
    return [
        parameter._replace(marks=(*parameter.marks, pytest.mark.slow)) if name(*parameter.values) in slow else parameter
        for parameter in parameters
    ]


def _parameter(example: Any) -> Any:
    return pytest.param(*example) if isinstance(example, tuple) else pytest.param(example)
