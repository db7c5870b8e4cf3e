"""The command line. It only reads arguments: every command is one call in Python."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 done, 1 failed, 2 bad input, which one sentence on standard error explains.

    `--traceback`, wherever it stands, shows first where an error was raised.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    shown = "--traceback" in given
    try:
        import typer

        from .app import app

        command = typer.main.get_command(app)
        words = [word for word in given if word != "--traceback"] or ["--help"]
        code = command.main(words, "temperance", standalone_mode=False)
        if code == 130:  # how some versions of Typer report Ctrl-C
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except (Exception, KeyboardInterrupt) as error:
        from .failures import explain

        sentence, code = explain(error, shown)
        print(f"temperance: {' '.join(sentence.split())}", file=sys.stderr)
        return code


def run() -> None:
    """The entry point `temperance`."""
    from .interrupts import answer_interrupts, leave

    answer_interrupts()
    leave(main())
