"""Point estimates: expectation–maximisation, and a Gaussian around the mode."""
