"""Methods of inference, and the one loop that runs them."""
