"""The result of a comparison of models, and its fits."""
