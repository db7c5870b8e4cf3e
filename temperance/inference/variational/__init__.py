"""Variational methods: coordinate ascent on the evidence lower bound."""
