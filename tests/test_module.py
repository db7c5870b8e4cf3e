"""Copies read from a pickle are as good as what was written, and go when nobody needs them."""

import gc
import pickle
import weakref

import jax
import numpy as np
import pytest

import temperance as tp
from tests.matrix.registry import ENTRIES, Entry


def test_a_copy_from_a_pickle_is_freed() -> None:
    """Equinox keeps modules that were made but never initialised, as a pickle makes them."""
    prior = tp.NormalWishart(mean=[0.0], pseudo_count=0.01, dof=2.0, scatter=[[0.22]])
    model = tp.GaussianMixture(2, prior=prior)
    again = pickle.loads(pickle.dumps(model))
    for old, new in zip(jax.tree.leaves(model), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(old, new)
    assert jax.tree.structure(again) == jax.tree.structure(model)
    gone = [weakref.ref(again), weakref.ref(again.component_prior), weakref.ref(again.component_prior.natural)]
    del again, old, new
    gc.collect()
    assert all(reference() is None for reference in gone)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_copy_of_every_model_and_its_data_is_the_same(entry: Entry) -> None:
    model, rows = entry.problem(np.random.default_rng(0))
    whole = model.prepare(rows)
    again = pickle.loads(pickle.dumps(whole))
    assert jax.tree.structure(again) == jax.tree.structure(whole)
    for old, new in zip(jax.tree.leaves(whole), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(old, new)
