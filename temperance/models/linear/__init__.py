"""Linear Gaussian models: regression, factor analysis and state space.

y = Wᵀφ(x) + ε        x_n = W z_n + μ + ε        s_t = A s_{t−1} + η,  x_t = C s_t + ε
"""
