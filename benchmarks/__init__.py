"""Speed beside other libraries: each figure is a ratio of times measured alternately in one run, never a test."""
