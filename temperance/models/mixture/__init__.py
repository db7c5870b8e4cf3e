"""Mixtures: each datum comes from one of K components, and which one is summed out.

    z_n ~ π,   x_n ~ p(x | θ_{z_n}),   θ_k ~ prior,   π ~ Dirichlet(δ)  or  stick-breaking with concentration α

`finite.py` is the model, the other files say what differs: the weights of a Dirichlet process, a shared precision.
"""
