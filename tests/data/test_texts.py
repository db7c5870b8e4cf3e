"""Texts in: words, stop words, phrases and limits with counts known by hand; every source gives the same corpus."""

import gzip
import json
import sys
import types
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.feature_extraction.text import CountVectorizer

import temperance as tp
from temperance.data import as_corpus
from temperance.data.stop_words import stop_words_of
from temperance.data.text_sources import values_beside
from temperance.data.tokenise import split_words
from temperance.errors import InvalidData, InvalidParameter, TemperanceError

TEXTS = [
    "The cats purr, and the cat's 2 kittens don't purr.",
    "Dogs bark; a dog barks at cats in 1999.",
    "",
    "It is what it is: the of and 42 s",
]


def counts(corpus: tp.Corpus) -> list[dict[str, int]]:
    dense = corpus.to_sparse().toarray()
    assert corpus.vocabulary is not None
    return [{corpus.vocabulary[j]: int(row[j]) for j in np.flatnonzero(row)} for row in dense]


KNOWN = [
    {"cats": 1, "purr": 2, "cat": 1, "kittens": 1},
    {"dogs": 1, "bark": 1, "dog": 1, "barks": 1, "cats": 1},
    {},
    {},
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop: 'tis o'clock", ["don't", "stop", "tis", "o'clock"]),
        ("Don’t", ["don't"]),
        ("snake_case covid19 3rd", ["snake", "case", "covid19", "3rd"]),
        ("Äpfel und Straße", ["äpfel", "und", "straße"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # vowel signs are marks, not letters
        ("\U00011107\U00011127 \U0001f600 ab", ["\U00011107\U00011127", "ab"]),  # Chakma, and no word
        ("Привет, мир!", ["привет", "мир"]),
        ("", []),
    ],
)
def test_words_are_letters_marks_and_digits(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_counts_and_report_by_hand() -> None:
    corpus = tp.read_texts(TEXTS)
    assert counts(corpus) == KNOWN
    assert list(corpus.vocabulary or ()) == sorted(set().union(*KNOWN))
    # the, and, the, don't · a, at, in · it, is, what, it, is, the, of, and · 2, 1999, 42 · s
    assert corpus.report == (
        "4 documents, 29 tokens; kept: 10 tokens of 8 different words",
        "left out: stop words (english), 15 tokens",
        "left out: numbers, 3 tokens",
        "left out: single letters, 1 token",
        "2 documents are empty: no word of theirs is kept",
    )


def test_every_source_gives_the_same_corpus(tmp_path: Path) -> None:
    def same(corpus: tp.Corpus) -> bool:
        return counts(corpus) == KNOWN

    assert same(tp.read_texts(text for text in TEXTS)) and same(as_corpus(TEXTS)) and same(as_corpus(iter(TEXTS)))
    assert same(tp.read_texts(pd.Series(TEXTS))) and same(tp.read_texts(pl.Series(TEXTS)))
    assert same(as_corpus(pd.Series(TEXTS))) and same(as_corpus(np.array(TEXTS))) and same(as_corpus(pl.Series(TEXTS)))
    assert same(tp.read_texts([TEXTS[0], TEXTS[1], None, float("nan")]))
    frame = pd.DataFrame({"id": range(4), "party": list("abab"), "speech": TEXTS})
    assert same(tp.read_texts(frame)) and same(tp.read_texts(frame, "speech"))
    frame.to_csv(tmp_path / "docs.csv", index=False)
    frame.to_csv(tmp_path / "docs.csv.gz", index=False)
    frame.to_csv(tmp_path / "docs.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "docs.parquet")
    frame.to_json(tmp_path / "docs.json", orient="records")
    lines = "\n".join(json.dumps(record) for record in frame.to_dict("records"))
    (tmp_path / "docs.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    for name in ("docs.csv", "docs.csv.gz", "docs.tsv", "docs.parquet", "docs.json", "docs.jsonl.gz"):
        corpus = tp.read_texts(tmp_path / name)
        assert same(corpus) and corpus.report[0] == f"texts are the column 'speech' of {name}", name
        assert same(as_corpus(tmp_path / name))
    folder = tmp_path / "folder" / "below"
    folder.mkdir(parents=True)
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.txt").write_text(text, "utf-16" if number == 0 else "utf-8")
    assert same(tp.read_texts(tmp_path / "folder")) and same(as_corpus(tmp_path / "folder"))
    (tmp_path / "lines.txt").write_text(TEXTS[0] + "\n" + TEXTS[1] + "\n")
    assert counts(tp.read_texts(tmp_path / "lines.txt")) == KNOWN[:2]


def test_a_vectorised_matrix_brings_its_words() -> None:
    vectoriser = CountVectorizer()
    matrix = vectoriser.fit_transform(TEXTS)
    for words in (vectoriser, vectoriser.get_feature_names_out(), vectoriser.vocabulary_):
        corpus = tp.read_texts((matrix, words))
        assert corpus.vocabulary == tuple(vectoriser.get_feature_names_out())
        assert (corpus.to_sparse() != matrix).nnz == 0
    assert as_corpus((matrix, vectoriser)).n_words == matrix.shape[1]


def test_long_cells_quotes_and_other_encodings(tmp_path: Path) -> None:
    long = "word " * 60_000 + '"quoted", with\na new line'
    pd.DataFrame({"id": [1, 2], "text": [long, "four short words here"]}).to_csv(tmp_path / "long.csv", index=False)
    corpus = tp.read_texts(tmp_path / "long.csv", language=None)
    assert counts(corpus)[0]["word"] == 60_000 and counts(corpus)[0]["quoted"] == 1
    (tmp_path / "latin.txt").write_bytes(b"plain\n" * 20_000 + "Übermut tut gut\n".encode("cp1252"))
    corpus = tp.read_texts(tmp_path / "latin.txt", language=None, min_documents=1)
    assert "übermut" in (corpus.vocabulary or ())
    assert "latin.txt is not UTF-8: it was read as Windows' Latin alphabet (cp1252)" in corpus.report
    (tmp_path / "plain.txt").write_text("plain\n" * 20_000 + "Übermut tut gut\n", encoding="utf-8")
    assert not any(
        "UTF-8" in note for note in tp.read_texts(tmp_path / "plain.txt", language=None, max_share=1.0).report
    )


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("gb18030", "猫在沙发上睡觉"), ("cp1251", "Кошка спит на диване"), ("shift-jis", "ねこはソファで眠る")],
)
def test_letters_of_another_alphabet_are_not_taken_for_latin_ones(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "texts.txt"
    path.write_text(f"{text}\n" * 20, encoding=encoding)
    with pytest.raises(InvalidData, match="neither UTF-8 nor that of a Western language: save it as UTF-8"):
        tp.read_texts(path)
    path.write_text(f"{text}\n" * 20, encoding="utf-8")
    assert tp.read_texts(path, language=None, max_share=1.0).n_words > 2


def test_limits_leave_out_rare_and_frequent_words() -> None:
    texts = ["every apple"] * 15 + ["every pear"] * 9 + ["every fig"]
    corpus = tp.read_texts(texts, language=None)
    assert corpus.vocabulary == ("apple", "pear")  # fig is in one of 25 documents, every in all
    assert "left out: 1 rare word (in fewer than 2 documents), 1 token: fig" in corpus.report
    assert "left out: 1 frequent word (in more than 70% of the documents), 25 tokens: every" in corpus.report
    assert tp.read_texts(texts, language=None, min_documents=1, max_share=1.0).n_words == 4
    assert tp.read_texts(texts, language=None, min_documents=10).vocabulary == ("apple",)


def test_phrases_are_pairs_that_belong_together() -> None:
    texts = ["new york city", "the new york times", "big new house", "old york", "New York, New York!"] * 3
    corpus = tp.read_texts(texts, phrases=3, language=None)
    assert counts(corpus)[:5] == [
        {"new_york": 1, "city": 1},
        {"the": 1, "new_york": 1, "times": 1},
        {"big": 1, "new": 1, "house": 1},
        {"old": 1, "york": 1},
        {"new_york": 2},
    ]
    assert any(line.startswith("phrases: ") and "new_york" in line for line in corpus.report)
    assert "new_york" not in (tp.read_texts(texts, phrases=13, language=None).vocabulary or ())
    # A stop word between two words keeps them apart.
    apart = tp.read_texts(["state of union"] * 12, phrases=True)
    assert apart.vocabulary == ("state", "union")


def test_npmi_by_hand() -> None:
    # 200 tokens: "a b" 10 times, a and b 10 times more each. NPMI = log(0.05 / 0.1²) / −log 0.05 = 0.537; with 15 more
    # of each log(0.05 / 0.125²) / −log 0.05 = 0.388.
    def texts(more: int) -> list[str]:
        fill = [f"w{number}" for number in range(200 - 20 - 2 * more)]
        return ["aa bb"] * 10 + ["aa"] * more + ["bb"] * more + fill

    assert "aa_bb" in (tp.read_texts(texts(10), phrases=True, language=None, min_documents=1).vocabulary or ())
    assert "aa_bb" not in (tp.read_texts(texts(15), phrases=True, language=None, min_documents=1).vocabulary or ())


def test_stems_numbers_and_stop_words_of_the_user() -> None:
    stemmed = tp.read_texts(TEXTS, stem=lambda word: word.rstrip("s"))
    assert counts(stemmed)[1] == {"dog": 2, "bark": 2, "cat": 1}
    assert counts(tp.read_texts(TEXTS, numbers=True))[3] == {"42": 1}
    assert counts(tp.read_texts(TEXTS, stop_words=["Cats"]))[1]["at"] == 1
    assert "cats" not in (tp.read_texts(TEXTS, stop_words=lambda word: word == "cats").vocabulary or ())


def test_stop_words_of_other_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stopwordsiso", None)
    with pytest.raises(InvalidParameter, match="pip install stopwordsiso"):
        tp.read_texts(TEXTS, language="german")
    lists = {"de": {"und", "der"}}
    listed = types.SimpleNamespace(has_lang=lists.__contains__, stopwords=lists.__getitem__)
    monkeypatch.setitem(sys.modules, "stopwordsiso", listed)
    assert stop_words_of("German")("und") and not stop_words_of("de")("katze")
    with pytest.raises(InvalidParameter, match="no list of stop words for the language 'klingon'"):
        tp.read_texts(TEXTS, language="klingon")


@pytest.mark.parametrize("pieces", [1, 30])
def test_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    generator = np.random.default_rng(0)
    words = [f"{chr(97 + a)}{chr(97 + b)}" for a in range(6) for b in range(6)]
    texts = [" ".join(generator.choice(words, size=generator.integers(0, 30))) for _ in range(200)]
    whole = tp.read_texts(texts, phrases=2, language=None)
    monkeypatch.setattr("temperance.data.tokenise._CHARACTERS", sum(map(len, texts)) // pieces)
    parts = tp.read_texts(iter(texts), phrases=2, language=None)
    assert parts.report == whole.report and parts.vocabulary == whole.vocabulary
    assert (parts.to_sparse() != whole.to_sparse()).nnz == 0


def test_new_texts_are_read_in_the_same_way(tmp_path: Path) -> None:
    texts = ["New York cats purring", "dogs barked in New York", "the cat's purrs", "a barking dog"] * 5
    corpus = tp.read_texts(texts, phrases=5, stem=lambda word: word.removesuffix("ing").removesuffix("ed").rstrip("s"))
    fit = tp.fit(tp.LDA(2), corpus, tp.CVB0(max_iter=5), seed=0)
    assert fit.notes[: len(corpus.report)] == corpus.report
    again = fit.model.new_corpus(texts)
    assert (again.to_sparse() != corpus.to_sparse()).nnz == 0
    fit.save(tmp_path / "fit.tp")
    loaded = tp.load(tmp_path / "fit.tp")
    np.testing.assert_array_equal(loaded.transform(texts), fit.transform(corpus))
    np.testing.assert_array_equal(loaded.log_predictive(texts), fit.log_predictive(corpus))
    unknown = loaded.model.new_corpus(["New York zebras", "the zebra's dog"])
    assert counts(unknown) == [{"new_york": 1}, {"dog": 1}] and unknown.unknown == 3


def test_strings_are_fitted_directly() -> None:
    fit = tp.fit(tp.LDA(2), [text for text in TEXTS if text] * 3, tp.CVB0(max_iter=5), seed=0)
    assert fit.model.vocabulary is not None and set(fit.model.vocabulary.words) == set().union(*KNOWN)
    assert fit.transform(["cats purr"]).shape == (1, 2)
    with_words = tp.LDA(2, vocabulary=["cats", "dogs"]).new_corpus(["Cats and dogs"])
    assert counts(with_words) == [{"cats": 1, "dogs": 1}]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ([], "at least one document"),
        (["", " "], "empty or hold no letters"),
        (["😀 🎉", "!?"], "empty or hold no letters"),
        (["the of and", "12"], "stop words, numbers or single letters"),
        (["text", 7], "document 1 must be a text, got int 7"),
        ([b"bytes"], "document 0 must be a text, got bytes"),
        (np.array([["a", "b"], ["c", "d"]]), r"got an array of shape \(2, 2\)"),
        (7, "got int"),
        ("no such file", "a text by itself must be in a list"),
        ({"id": [1, 2], "code": ["x", "y"]}, "no column of the frame looks like text.* of id, code"),
        ({"a": ["one two three four", "b c d e"], "b": ["five six seven eight", "w x y z"]}, "2 columns .* of a, b"),
    ],
)
def test_what_is_not_text_is_one_sentence(source: object, sentence: str) -> None:
    with pytest.raises(InvalidData, match=sentence):
        tp.read_texts(source)


def test_one_document_shows_no_topics() -> None:
    assert "there is only one: cut it into parts" in tp.read_texts(["Cats purr, dogs bark."]).report[-1]
    assert not any("cut it" in line for line in tp.read_texts(["Cats purr.", "Dogs bark."]).report)


def test_bad_files_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "ids.csv").write_text("id,code\n1,x\n2,y\n3,z\n")
    (tmp_path / "numbers.csv").write_text("id,text\n1,four words are here\n2,and four here too\n")
    (tmp_path / "uneven.csv").write_text("id,text\n1,four words are here\n2,one, two, three\n")
    (tmp_path / "bad.jsonl").write_text('{"text": "four words are here"}\n{"text": \n')
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 1000)[:-20])
    for name, column, sentence in [
        ("empty", None, "no .txt files"),
        ("binary.txt", None, "neither text nor a known kind"),
        ("ids.csv", None, "no column of ids.csv looks like text.* of id, code"),
        ("numbers.csv", "id", "column 'id' of numbers.csv holds numbers"),
        ("numbers.csv", "body", "column 'body' is not in numbers.csv; its columns are id, text"),
        ("uneven.csv", None, "line 3 of uneven.csv has 4 cells"),
        ("bad.jsonl", None, "bad.jsonl is damaged or no JSON"),
        ("cut.jsonl.gz", None, "cut.jsonl.gz is damaged"),
    ]:
        with pytest.raises(TemperanceError, match=sentence):
            tp.read_texts(tmp_path / name, column)


@pytest.mark.parametrize(
    "arguments", [{"min_documents": 0}, {"max_share": 1.5}, {"phrases": 1}, {"stem": "porter"}, {"stop_words": "the"}]
)
def test_bad_arguments_are_named(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=next(iter(arguments))):
        tp.read_texts(TEXTS, **arguments)  # type: ignore[arg-type]


def test_what_is_no_word_is_taken_out_of_html_and_tweets() -> None:
    page = "<html><style>p {color: red}</style><body><p class='x'>Cats &amp; dogs&nbsp;purr</p><br/></body></html>"
    tweet = "cats see https://t.co/Ab1 www.example.com/x?y=z and write to me@mail.example.org if 3 <b and c> 2"
    corpus = tp.read_texts([page, tweet, "dogs"], language=None)
    assert corpus.vocabulary is not None
    assert set(corpus.vocabulary) == {"and", "cats", "dogs", "if", "purr", "see", "to", "write"}
    assert "HTML tags were taken out of 1 document" in corpus.report
    assert "left out: 3 web or e-mail addresses" in corpus.report
    assert split_words("-" * 50_000 + "a.b" * 50_000 + "@ <" + "<p " * 20_000)  # in no more than linear time


def test_words_without_spaces_are_pairs_of_characters() -> None:
    assert split_words("我爱北京,AI研究") == ["我爱", "爱北", "北京", "ai", "研究"]
    assert split_words("人 カタカナ") == ["人", "カタ", "タカ", "カナ"]
    corpus = tp.read_texts(["我爱北京", "สวัสดีครับ"], language=None)
    assert any("Chinese or Japanese" in note for note in corpus.report)
    assert any("Thai" in note and "lists of words" in note for note in corpus.report)
    assert len(tp.read_texts([["北京", "Wetter"], ["wetter"]], language=None).vocabulary or ()) == 2


def test_texts_of_another_language_and_copies_are_told() -> None:
    german = ["Die Katze schläft auf dem Sofa und schnurrt", "Der Hund bellt laut und läuft in den Park"] * 40
    assert any("another language" in note for note in tp.read_texts(german[:16]).report)  # of 130 words
    report = tp.read_texts(german).report
    assert any("English stop words: if the texts are in another language" in note for note in report)
    assert "78 documents have the same words, as often, as one before" in report
    english = [f"the {word} of a cat is in the house with a dog" for word in ("paw", "tail", "ear", "nose")]
    told = tp.read_texts([f"{text} {'abcdefghij'[n]}x" for n in range(10) for text in english]).report
    assert not any("another language" in note or "as often" in note for note in told)


def test_fields_inside_fields_and_lists_of_words(tmp_path: Path) -> None:
    rows = [{"id": n, "content": {"body": f"four words are here {n}"}, "tags": ["cat", "dog"]} for n in range(4)]
    lines, whole, pretty = (tmp_path / name for name in ("lines.jsonl", "whole.json", "pretty.json"))
    lines.write_text("\n".join(map(json.dumps, rows)))
    whole.write_text(json.dumps({"count": 4, "data": rows}))
    pretty.write_text(json.dumps({"count": 4, "data": rows}, indent=1))
    for path in (lines, whole, pretty):
        corpus = tp.read_texts(path)
        assert len(corpus) == 4 and corpus.report[0] == f"texts are the column 'content.body' of {path.name}"
        assert tp.read_texts(path, "content.body").n_tokens == corpus.n_tokens
        assert tp.read_texts(path, "tags").n_tokens == 8
    lines.write_text("\n".join(json.dumps({"text": {"a": [1]}}) for _ in rows))
    with pytest.raises(InvalidData, match="must be a text, got list"):
        tp.read_texts(lines, "text.a")


def test_a_folder_without_txt_is_read_for_its_pages(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>cats purr</p>")
    (tmp_path / "b.md").write_text("dogs bark")
    corpus = tp.read_texts(tmp_path)
    assert corpus.n_tokens == 4 and ".html and .md files" in corpus.report[0]
    (tmp_path / "c.txt").write_text("cats sleep")
    assert len(tp.read_texts(tmp_path)) == 1


def test_texts_without_a_word_in_common_are_read_all_the_same() -> None:
    words = ["river", "flood", "voters", "polls", "bakery", "street", "final", "penalty", "ice", "lake"]
    texts = [f"{word}{n} and the {word[::-1]}{n}" for n in range(3) for word in words]
    corpus = tp.read_texts(texts)
    assert corpus.n_words == 60 and any("no word is in several documents" in note for note in corpus.report)
    with pytest.raises(InvalidData, match="no word is left of 30 documents: 60 words are in fewer than 2"):
        tp.read_texts(texts, min_documents=2)


def test_columns_of_lists_beside_texts_are_no_columns_of_values(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"text": f"four words are here {n}", "tags": ["a", "b"], "year": 1990 + n} for n in range(4)]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert values_beside(path) == {"year": [1990, 1991, 1992, 1993]}
