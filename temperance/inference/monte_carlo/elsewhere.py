"""What to run where a path from the prior came to nothing: a posterior that forms abruptly tears it.

That happens where components are far apart, and there variational posteriors are good proposals; if not, a path from
the best of them is shorter.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ...models import Model
from .._method import Method
from .importance import ImportanceSampling
from .path import Path


def elsewhere(method: Any, model: Model) -> tuple[Method, ...]:
    """In this order; nothing if the user chose where the path starts."""
    if method.reference is not None:
        return ()
    closer = dataclasses.replace(method, reference="auto", path=Path({}))
    return (closer,) if model.local_groups else (ImportanceSampling(), closer)
