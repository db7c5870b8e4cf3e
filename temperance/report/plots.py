"""Every plot: `tp.plot`. Each function draws on given Matplotlib axes or makes a figure, and returns what it drew on.

`fit` is the result of `tp.fit`, `comparison` that of `tp.compare`. `x` is data, by default the fitted data. `axes` are
Matplotlib axes; without them a figure is made. `names` are the names of the columns. `column` and `sequence` are the
numbers, from 0, of the column and the sequence to draw. At most `most` parts are drawn, the largest. `n_words` is the
number of words of each topic. `level` is the probability that an interval holds. `xlabel` labels the horizontal axis.

Everyone can tell the colours apart; where colours carry meaning, markers and lines do too.
"""

from .plots_data import density, ellipses, overview, pairs, responsibilities, together
from .plots_evidence import hill, trace
from .plots_linear import coefficients, forecast, loadings, predicted
from .plots_parts import factors, topics, weights
from .plots_profiles import profiles
from .plots_sequences import states
from .plots_tempering import energies, swaps, thermodynamic
from .plots_topics import effects, topic_map, topic_sizes, topics_by

__all__ = [
    "coefficients",
    "density",
    "effects",
    "ellipses",
    "energies",
    "factors",
    "forecast",
    "hill",
    "loadings",
    "overview",
    "pairs",
    "predicted",
    "profiles",
    "responsibilities",
    "states",
    "swaps",
    "thermodynamic",
    "together",
    "topic_map",
    "topic_sizes",
    "topics",
    "topics_by",
    "trace",
    "weights",
]
