"""Turning what users have into arrays: one place, used by Python, the estimators and the command line alike."""

from .arrays import as_matrix, as_weights, checked, column_moments, distinct_rows
from .corpus import Corpus, as_corpus
from .corpus_files import read_corpus, read_vocabulary
from .corpus_store import ShardedCorpus, open_corpus, store_corpus
from .schema import Column, Schema
from .tables import Table, read_table
from .texts import read_texts

__all__ = [
    "Column",
    "Corpus",
    "Schema",
    "ShardedCorpus",
    "Table",
    "as_corpus",
    "as_matrix",
    "as_weights",
    "checked",
    "column_moments",
    "distinct_rows",
    "open_corpus",
    "read_corpus",
    "read_table",
    "read_texts",
    "read_vocabulary",
    "store_corpus",
]
