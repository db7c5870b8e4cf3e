"""Monte Carlo: Gibbs sampling, tempering, annealed and plain importance sampling, variational kernels."""
