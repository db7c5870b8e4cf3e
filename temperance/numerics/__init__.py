"""Small numerical pieces that everything else stands on: linear algebra and special functions."""
