"""`TopicModel` on raw strings and on counts."""

import numpy as np
import pandas as pd
import pytest

import temperance as tp
from temperance.errors import InvalidData
from temperance.estimators import TopicModel

TEXTS = ["apple pear plum apple", "pear apple plum pear", "plum apple pear"] * 4 + [
    "iron steel copper iron", "steel iron copper steel", "copper iron steel",
] * 4  # fmt: skip


def separated(shares: np.ndarray) -> bool:
    """Whether fruit and metal have a topic each."""
    best = shares.argmax(axis=1)
    return len(set(best[:12])) == 1 and len(set(best[12:])) == 1 and best[0] != best[-1]


def test_strings_in_shares_out() -> None:
    model = TopicModel(2, random_state=0)
    shares = model.fit_transform(TEXTS)
    assert np.allclose(shares.sum(axis=1), 1.0) and separated(shares)
    assert np.allclose(shares, model.fit_.transform(TEXTS))
    assert {frozenset(word for word, _ in topic) for topic in model.topics(3)} == {
        frozenset(("apple", "pear", "plum")), frozenset(("iron", "steel", "copper")),
    }  # fmt: skip
    assert list(model.get_feature_names_out()) == ["topicmodel0", "topicmodel1"]
    new = model.transform(["apple apple unknown", "steel"])
    assert new[0].argmax() == shares[0].argmax() and new[1].argmax() == shares[-1].argmax()


def test_counts_are_the_same_documents() -> None:
    corpus = tp.read_texts(TEXTS, language="english")
    counts = corpus.to_sparse()
    of_counts = TopicModel(2, random_state=0).fit_transform(counts)
    assert np.allclose(of_counts, TopicModel(2, random_state=0).fit_transform(TEXTS))


def test_output_as_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = TopicModel(2, random_state=0).set_output(transform="pandas").fit_transform(TEXTS)
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == ["topicmodel0", "topicmodel1"]


@pytest.mark.slow
def test_partial_fit_learns_from_batches() -> None:
    model = TopicModel(2, total_samples=24, random_state=0)
    for _ in range(10):
        model.partial_fit(TEXTS)
    assert separated(model.transform(TEXTS)) and len(model.vocabulary_) == 6


def test_one_string_is_refused() -> None:
    with pytest.raises(InvalidData, match="X must be several documents"):
        TopicModel(2).fit("a text")


def test_what_users_give_a_topic_model() -> None:
    rng = np.random.default_rng(0)
    texts = [
        " ".join(rng.choice([["cats", "purr", "sleep", "mat"], ["dogs", "bark", "run", "ball"]][n % 2], 6))
        for n in range(40)
    ]
    plain = TopicModel(2, random_state=0).fit(texts)
    frame = pd.DataFrame({"id": range(40), "text": texts})
    for given in (frame, frame["text"], np.array(texts)[:, None], (text for text in texts), [t.split() for t in texts]):
        assert np.allclose(TopicModel(2, random_state=0).fit_transform(given), plain.transform(texts))
    gaps = TopicModel(2, random_state=0).fit([*texts, None, float("nan")])
    assert set(gaps.vocabulary_) == set(plain.vocabulary_)
    assert np.allclose(plain.transform([None, "nothing known"]), 0.5)
    for given, found in (([1, 2], "got int 1"), ([b"cats purr"], "got bytes")):
        with pytest.raises(InvalidData, match=found):
            TopicModel(2).fit(given)
    fit = tp.fit(tp.LDA(2), frame, tp.CVB0(), seed=0, progress=False)
    assert fit.model.vocabulary.words == tuple(plain.vocabulary_)
