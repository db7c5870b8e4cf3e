"""A fit on a cluster is the fit in one process, whatever the partitions; what goes wrong says where."""

import dataclasses
import functools
import os
import re
import subprocess
import sys

import dask
import dask.array
import dask.bag
import dask.dataframe
import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import temperance as tp
from temperance.cluster.engine import lengths
from temperance.cluster.start import Cluster
from temperance.cluster.worker import join_abouts, look
from temperance.errors import InvalidData, InvalidParameter, PartitionFailed, UnsupportedMethod
from temperance.inference.variational.minibatches import rows_of_step
from temperance.models import Data
from temperance.models._data import make_data
from temperance.models._model import add, means
from tests.cluster.local import local_client
from tests.inference.steps import stochastic_step
from tests.tiers import with_slow

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2)) + 4.0 * RNG.integers(0, 3, size=(N, 1))
HOLES = np.where((RNG.random(X.shape) < 0.3) & (np.arange(2) == 1), np.nan, X)
COUNTS = RNG.poisson(RNG.dirichlet(np.full(12, 0.3), size=3)[RNG.integers(0, 3, N)] * 20)
SUMS = (RNG.random((N, 2)) < 0.5) @ RNG.normal(size=(2, 5)) * 2 + 0.3 * RNG.normal(size=(N, 5))
Y = X @ [1.0, -2.0] + 0.5 + 0.1 * RNG.normal(size=N)

CASES = {
    "mixture": (lambda: tp.GaussianMixture(3), X),
    "missing values": (lambda: tp.GaussianMixture(2, missing="marginalise"), HOLES),
    "topics": (lambda: tp.LDA(3), COUNTS),
    "factors": (lambda: tp.FactorialMixture(2, noise=0.2, probability=0.4), SUMS),
    "regression": (lambda: tp.LinearRegression(), (X, Y)),
    "factor analysis": (lambda: tp.FactorAnalysis(2), SUMS),
    "counts": (lambda: tp.PoissonRegression(), (X, COUNTS[:, 0].astype(float))),
}
SIZES = (20, 0, 18, 20, 2)


def cut(data, sizes=SIZES):
    """Delayed parts of these sizes."""
    places = np.cumsum(sizes)[:-1]
    if isinstance(data, tuple):
        parts = list(zip(*(np.split(column, places) for column in data), strict=True))
    else:
        parts = np.split(data, places)
    return [dask.delayed(part) for part in parts]


def agree(one, other):
    """The same bound at every sweep, and the same posterior."""
    np.testing.assert_allclose(other.history["elbo"], one.history["elbo"], rtol=1e-9)
    np.testing.assert_allclose(other.log_evidence, one.log_evidence, rtol=1e-9)
    for name, family in one.posterior.items():
        for a, b in zip(vector(family), vector(other.posterior[name]), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * np.abs(a).max())


def vector(family):
    return [np.asarray(getattr(family.natural, field.name)) for field in dataclasses.fields(family.natural)]


@pytest.fixture(scope="module")
def four():
    with local_client(4) as here:
        yield here


@pytest.mark.parametrize("name", with_slow(["mixture", "factors"], "factors"))
def test_a_fit_is_that_of_one_process(client, name):
    make, data = CASES[name]
    method = tp.VB(restarts=4, max_iter=30)  # starts of every kind
    agree(tp.fit(make(), data, method, seed=0), tp.fit(make(), cut(data), method, seed=0, engine=client))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", [SIZES, (1,) * N, (0, 31, 0, 29), (N,)], ids=str)
@pytest.mark.parametrize("workers", [2, 4])
def test_every_model_and_partitioning(client, four, name, sizes, workers):
    make, data = CASES[name]
    method = tp.VB(restarts=2, max_iter=30)
    engine = client if workers == 2 else four
    agree(tp.fit(make(), data, method, seed=0), tp.fit(make(), cut(data, sizes), method, seed=0, engine=engine))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_annealed(client, name):
    make, data = CASES[name]
    method = tp.Annealed(tp.VB(max_iter=10), schedule="linear", length=5)
    agree(tp.fit(make(), data, method, seed=0), tp.fit(make(), cut(data), method, seed=0, engine=client))


@pytest.mark.slow
def test_tempered(client):
    make, data = CASES["factors"]
    method = tp.VT(length=5, method=tp.VB(max_iter=10))
    agree(tp.fit(make(), data, method, seed=0), tp.fit(make(), cut(data), method, seed=0, engine=client))


@pytest.mark.slow
def test_the_temperature_to_begin_with_is_that_of_one_process(client):
    make, data = CASES["mixture"]
    method = tp.Annealed(tp.VB(max_iter=10), length=10)
    one, other = tp.fit(make(), data, method), tp.fit(make(), cut(data), method, engine=client)
    assert one.details["critical"] == other.details["critical"]
    agree(one, other)


def parts_of(model, data, sizes=SIZES):
    """The rows of each part, as arrays in one process."""
    places = np.cumsum(sizes)[:-1]
    if isinstance(data, tuple):
        pieces = zip(*(np.split(column, places) for column in data), strict=True)
    else:
        pieces = iter(np.split(data, places))
    parts = [part for part, size in zip(pieces, sizes, strict=True) if size]
    return [make_data(model.new_rows(part), None, None) for part in parts]


def order_of_steps(steps, count):
    """The partition that each step saw, from the same seed."""
    key = jax.random.split(jax.random.key(0), 1)[0]
    here = jax.random.wrap_key_data(jax.random.key_data(jax.random.fold_in(key, 1)))
    return [int(rows_of_step(here, t, 1, count, False)[0]) for t in range(steps)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_stochastic_steps_are_those_of_a_loop_over_the_same_partitions(client, name):
    make, data = CASES[name]
    sizes = (20, 0, 20, 20) if name == "factors" else SIZES  # one shape is soon compiled
    fit = tp.fit(make(), cut(data, sizes), tp.SVI(passes=2, local_steps=5, step_size=(1.0, 0.7)), seed=0, engine=client)
    model, whole = make().prepare(data)
    parts = parts_of(model, data, sizes)
    blocks = model.initial(jax.random.split(jax.random.key(0), 1)[0], whole).blocks
    step = jax.jit(lambda blocks, part, rate: stochastic_step(model, blocks, part, rate, 5)[0])
    for t, number in enumerate(order_of_steps(2 * len(parts), len(parts))):
        part = parts[number]
        weighted = Data(part.values, part.weights * (N / part.size), part.size, part.blocks)
        blocks = step(blocks, weighted, (1.0 + t + 1) ** -0.7)
    for block, family in blocks.items():
        for a, b in zip(vector(family), vector(fit.state.blocks[block]), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * np.abs(a).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "topics", "factors"])
def test_memoised_passes_are_those_of_a_loop_over_the_same_partitions(client, name):
    """In one process a part is some rows; here the loop is written out over the partitions."""
    make, data = CASES[name]
    fit = tp.fit(make(), cut(data), tp.VB(batches=4, max_iter=3, tol=0.0), seed=0, engine=client)
    model, whole = make().prepare(data)
    parts = parts_of(model, data)
    q = model.initial(jax.random.split(jax.random.key(0), 1)[0], whole)
    said = [walk_part(model, q.blocks, part, None) for part in parts]
    blocks = q.blocks
    for _ in range(3):
        for number, part in enumerate(parts):
            said[number] = walk_part(model, blocks, part, said[number][1])
            total = functools.reduce(add, (messages for messages, _ in said))
            target = add(jax.grad(model.log_prior)(means(blocks)), total)
            blocks = {block: family.with_natural(target[block]) for block, family in blocks.items()}
    for block, family in blocks.items():
        for a, b in zip(vector(family), vector(fit.state.blocks[block]), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * np.abs(a).max())


def walk_part(model, blocks, part, local):
    walked = model.walk(means(blocks), part, local=local or None)
    return walked.messages, walked.local


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "topics", "factors"])
def test_memoised_bounds_never_fall_and_end_where_vb_does(client, name):
    make, data = CASES[name]
    fit = tp.fit(make(), cut(data), tp.VB(batches=4, tol=1e-9), seed=0, engine=client)
    assert (np.diff(fit.history["elbo"]) > -1e-9 * abs(fit.log_evidence)).all()
    swept = tp.fit(make(), cut(data), tp.VB(tol=1e-9), seed=0, engine=client)
    assert abs(fit.log_evidence - swept.log_evidence) < 0.05 * abs(swept.log_evidence)


# ---- data as users have them ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference():
    return tp.fit(tp.GaussianMixture(3), X, tp.VB(restarts=2, max_iter=30), seed=0)


LATER = ("memory", "frames", "parquet", "dask frame", "dask frame of parquet")
KINDS = ["array", "csv", *(pytest.param(kind, marks=pytest.mark.slow) for kind in LATER)]


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, which Dask still uses
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_frames_and_folders(client, reference, tmp_path, kind):
    frames = [pd.DataFrame(part, columns=["a", "b"]) for part in np.split(X, [20, 40])]
    engine = client
    if kind == "array":
        data = dask.array.from_array(X, chunks=(20, 1))
    elif kind == "memory":
        data, engine = X, Cluster(client)  # a client alone would share out the restarts
    elif kind.startswith("dask frame"):
        data = dask.dataframe.from_pandas(pd.concat(frames, ignore_index=True), npartitions=3)
        if kind.endswith("parquet"):
            data.to_parquet(tmp_path)
            data = dask.dataframe.read_parquet(tmp_path)
    elif kind == "frames":
        data = [dask.delayed(frame) for frame in frames]
    else:
        for number, frame in enumerate(frames):
            write = frame.to_csv if kind == "csv" else frame.to_parquet
            write(tmp_path / f"{number}.{kind}", index=False)
        data = tmp_path
    agree(
        reference,
        tp.fit(tp.GaussianMixture(3), data, tp.VB(restarts=2, max_iter=30), seed=0, engine=engine),
    )


def test_partitions_that_are_read_anew_each_time_give_the_same(client, reference, tmp_path):
    for number, part in enumerate(np.split(X, [20, 40])):
        np.save(tmp_path / f"{number}.npy", part)
    engine = Cluster(client, keep=False)
    agree(
        reference,
        tp.fit(tp.GaussianMixture(3), tmp_path, tp.VB(restarts=2, max_iter=30), seed=0, engine=engine),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sparse", "lda-c", "stored", "bag"])
def test_documents(client, tmp_path, kind):
    method = tp.VB(max_iter=20)
    words = [f"w{number:02d}" for number in range(COUNTS.shape[1])]
    one = tp.fit(tp.LDA(3), COUNTS, method, seed=0)
    parts = np.split(COUNTS, [20, 40])
    data = tmp_path / "shards"
    data.mkdir()
    if kind == "bag":
        texts = [[word for word, count in zip(words, row, strict=True) for _ in range(count)] for row in COUNTS]
        data = dask.bag.from_sequence(texts, npartitions=3)
    elif kind == "stored":
        from temperance.data import store_corpus

        data = tmp_path / "stored"
        store_corpus(COUNTS, data, shard_documents=25)
    for number, part in enumerate(parts):
        if kind == "sparse":
            scipy.sparse.save_npz(data / f"{number}.npz", scipy.sparse.csr_matrix(part))
        elif kind == "lda-c":
            rows = ((np.flatnonzero(row), row) for row in part)
            lines = (f"{len(at)} " + " ".join(f"{word}:{row[word]}" for word in at) for at, row in rows)
            (data / f"{number}.ldac").write_text("\n".join(lines) + "\n")
    agree(one, tp.fit(tp.LDA(3), data, method, seed=0, engine=client))


def test_predictions_are_lazy(client, reference):
    new = dask.array.from_array(X, chunks=(25, 2))
    density, shares = reference.log_predictive(new), reference.responsibilities(new)
    assert density.chunks == ((25, 25, 10),) and shares.shape == (60, 3)
    np.testing.assert_allclose(density.compute(), reference.log_predictive(X), rtol=1e-12)
    np.testing.assert_allclose(shares.compute(), reference.responsibilities(X), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_large_data_have_the_scales_of_one_process(client):
    """More rows than are brought to the client: means and variances of all of them make the same model."""
    rng = np.random.default_rng(1)
    x = 100.0 + rng.normal(size=(70_000, 2)) * [1.0, 5.0]
    y = x @ [1.0, 2.0] + rng.normal(size=70_000)
    method = tp.VB(max_iter=2, tol=0.0)
    for make, data in (
        (lambda: tp.GaussianMixture(2), x),
        (lambda: tp.LinearRegression(), (x, y)),
        (lambda: tp.FactorialMixture(2), x),
        (lambda: tp.FactorAnalysis(1), x),
    ):
        one, _ = make().prepare(data)
        other = tp.fit(make(), cut(data, (30_000, 0, 40_000)), method, seed=0, engine=client).model
        for name, p in one.prior.items():
            for a, b in zip(jax.tree.leaves(p), jax.tree.leaves(other.prior[name]), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)


# ---- what goes wrong --------------------------------------------------------------------------------------------


def test_the_failing_partition_is_named(client, tmp_path):
    wrong = X.copy()
    wrong[27, 1] = np.inf
    for number, part in enumerate(np.split(wrong, [20, 40])):
        np.save(tmp_path / f"{number}.npy", part)
    with pytest.raises(PartitionFailed, match=rf"partition 1 \({re.escape(str(tmp_path / '1.npy'))}\).*row 7"):
        tp.fit(tp.GaussianMixture(3), tmp_path, engine=client)


def test_a_partition_that_breaks_during_the_run_is_named(client, tmp_path):
    """It could be read at first, and is damaged by the time the model walks over it."""
    parts = cut(X)

    def flaky(part, marker):

        count = len(os.listdir(marker))
        open(os.path.join(marker, str(count)), "w").close()
        if count >= 2:
            raise OSError("the disk is gone")
        return part

    parts[2] = dask.delayed(flaky)(X[20:38], str(tmp_path))
    with pytest.raises(PartitionFailed, match=r"partition 2 .*the disk is gone"):
        tp.fit(tp.GaussianMixture(3), parts, engine=client)


def test_refusals_are_one_sentence(client):
    refused = [
        (tp.GaussianMixture(2), tp.EP(), {}, UnsupportedMethod, "needs all rows in one place"),
        (tp.GaussianMixture(2), tp.Gibbs(), {}, UnsupportedMethod, "tp.VB, tp.SVI"),
        (tp.GaussianMixture(2), tp.VB(moves=True), {}, UnsupportedMethod, "moves"),
        (tp.HMM(2), tp.VB(), {}, UnsupportedMethod, "HMM needs its data in one place"),
        (tp.GaussianMixture(2), tp.VB(), {"weights": np.ones(N)}, InvalidData, "weights"),
        (tp.GaussianMixture(2), tp.SVI(held_out=0.1), {}, InvalidParameter, "held_out"),
    ]
    for model, method, more, error, words in refused:
        with pytest.raises(error, match=words):
            tp.fit(model, cut(X), method, engine=client, **more)
    for attempt, error, message in (
        (lambda: tp.fit(tp.GaussianMixture(2), X, engine="local"), InvalidParameter, "engine must be a dask"),
        (
            lambda: tp.fit(tp.GaussianMixture(2), cut(X[:0], (0, 0)), engine=client),
            InvalidData,
            "all 2 partitions are empty",
        ),
        (
            lambda: tp.fit(tp.GaussianMixture(2), [dask.delayed(X), dask.delayed(X[:, :1])], engine=client),
            InvalidData,
            "rows of one shape",
        ),
        (
            lambda: tp.fit(tp.GaussianMixture(2), "/no/such/folder", engine=client),
            InvalidData,
            "there is no file or folder",
        ),
        (
            lambda: tp.fit(tp.GaussianMixture(2), tp.Stream(X), engine=client),
            InvalidData,
            r"folder of shards, got a tp.Stream",
        ),
    ):
        with pytest.raises(error, match=message):
            attempt()


def test_without_dask_one_sentence_says_what_to_install():
    code = (
        "import sys; sys.modules['distributed'] = None; sys.modules['dask'] = None\n"
        "import numpy, temperance as tp\n"
        "try: tp.fit(tp.GaussianMixture(2), numpy.zeros((4, 1)), engine=object())\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'engine needs Dask, which is not installed: pip install "temperance[dask]"'


# ---- pieces -----------------------------------------------------------------------------------------------------


def test_partitions_share_a_few_lengths():
    found = lengths({0: 100, 1: 99, 2: 81, 3: 79, 4: 1, 5: 100})
    assert found == {0: 100, 1: 100, 2: 100, 3: 79, 4: 1, 5: 100}


def test_moments_of_parts_are_those_of_all():
    x = 1e6 + RNG.normal(size=(50, 3))
    x[RNG.random(x.shape) < 0.2] = np.nan
    parts = [look(part, number, "", False, {}) for number, part in enumerate(np.split(x, [0, 10, 11]))]
    about = join_abouts(parts)
    assert about.rows == 50
    np.testing.assert_allclose(about.mean, np.nanmean(x, axis=0), rtol=1e-14)
    np.testing.assert_allclose(about.spread / about.count, np.nanvar(x, axis=0), rtol=1e-9)
