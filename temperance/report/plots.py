"""Every plot: `tp.plot`. Each function takes Matplotlib axes, or makes a figure, and returns what it drew on.

`fit` is what `tp.fit` returned, `comparison` what `tp.compare` did. `x` is the data, by default those that were fitted.
`axes` are Matplotlib's; without them a figure is made. `names` are those of the columns. `column` and `sequence` are
the number of the one that is drawn, from 0. At most `most` parts are drawn, the largest. `n_words` is the number
of words of each topic. `level` is the probability that an interval holds. `xlabel` is the label of the horizontal axis.

Colours are those everyone can tell apart; where they carry meaning, markers and lines do too.
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
