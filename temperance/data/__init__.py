"""Users' data turned into arrays, for Python, the estimators and the command line alike.

Names are imported when they are first used, so that a fit of an array does not wait for the import of file readers.
"""

import typing as _typing

from .._lazy import lazy as _lazy

if _typing.TYPE_CHECKING:
    from .arrays import as_matrix as as_matrix
    from .arrays import as_weights as as_weights
    from .arrays import checked as checked
    from .arrays import column_moments as column_moments
    from .arrays import distinct_rows as distinct_rows
    from .corpus import Corpus as Corpus
    from .corpus import as_corpus as as_corpus
    from .corpus_files import read_corpus as read_corpus
    from .corpus_files import read_vocabulary as read_vocabulary
    from .corpus_store import ShardedCorpus as ShardedCorpus
    from .corpus_store import open_corpus as open_corpus
    from .corpus_store import store_corpus as store_corpus
    from .schema import Column as Column
    from .schema import Schema as Schema
    from .tables import Table as Table
    from .tables import read_table as read_table
    from .texts import read_texts as read_texts

__all__, __getattr__ = _lazy(
    __name__,
    {
        "arrays": ("as_matrix", "as_weights", "checked", "column_moments", "distinct_rows"),
        "corpus": ("Corpus", "as_corpus"),
        "corpus_files": ("read_corpus", "read_vocabulary"),
        "corpus_store": ("ShardedCorpus", "open_corpus", "store_corpus"),
        "schema": ("Column", "Schema"),
        "tables": ("Table", "read_table"),
        "texts": ("read_texts",),
    },
)
