"""The command line. Arguments only: everything it does, Python does in one call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 done, 1 failed, 2 bad input, which one sentence on standard error explains."""
    import typer

    from ..errors import NumericalFailure, TemperanceError
    from .app import app

    # Typer brings its own copy of click, or uses the installed one, depending on its version.
    usage_error = typer.BadParameter.__bases__[0]
    click_error: Any = usage_error.__bases__[0]
    try:
        code = typer.main.get_command(app).main(
            args=None if arguments is None else list(arguments), prog_name="temperance", standalone_mode=False
        )
        return code if isinstance(code, int) else 0
    except click_error as error:
        return _say(error.format_message(), 2)
    except NumericalFailure as error:
        return _say(str(error), 1)
    except (TemperanceError, ValueError) as error:
        # A ValueError that is not ours comes from a data set's reader, or from a file.
        return _say(str(error), 2)
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        return _say(f"{error.filename}: {error.strerror}", 2)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted before there was a result", 1)
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def run() -> None:
    """The entry point `temperance`."""
    sys.exit(main())


def _say(sentence: str, code: int) -> int:
    print(f"temperance: {' '.join(sentence.split())}", file=sys.stderr)
    return code
