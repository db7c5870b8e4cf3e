"""Marks that scikit-learn's own tests carry, which mean nothing here."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "thread_unsafe: of scikit-learn's tests; not run in several threads")
