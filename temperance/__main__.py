"""`python -m temperance`, where the command `temperance` is not on the path."""

from .cli import run

if __name__ == "__main__":
    run()
