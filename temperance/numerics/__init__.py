"""Numerical functions that all other folders use: linear algebra, special functions, random numbers, chains."""
