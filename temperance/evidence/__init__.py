"""Estimates of the log evidence from tempered draws, with standard errors and brackets."""
