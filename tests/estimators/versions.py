"""The version of scikit-learn whose names and defaults ours follow; earlier ones work, but differ in details."""

import sklearn
from sklearn.utils.fixes import parse_version

FOLLOWED = parse_version(sklearn.__version__) >= parse_version("1.9")
