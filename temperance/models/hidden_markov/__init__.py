"""Hidden Markov models: the component of a step depends on that of the step before.

z_1 ~ π,   z_t ~ A_{z_{t−1}},   x_t ~ p(x | θ_{z_t})
"""
