"""Topic models: documents are mixtures of topics, topics are distributions over words.

β_k ~ Dirichlet(η)   θ_d ~ Dirichlet(α)   z_dn ~ θ_d   w_dn ~ β_{z_dn}
"""
