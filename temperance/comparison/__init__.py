"""What a comparison of models found, and the fits it is made of."""
