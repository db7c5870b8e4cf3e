"""Compiled programs: cheap to compile where the work is small, bounded in memory, kept on disk between processes.

`@program` takes the place of `@eqx.filter_jit`. A call goes through five files:

    program.py      splits the arguments into arrays and the rest, and finds the executable in memory
    compilation.py  traces, lowers and compiles a new executable; packs and unpacks executables for the disk
    identity.py     writes the rest of the arguments as a text that means the same in every process
    room.py         drops compiled code before a process runs out of memory maps
    store.py        keeps executables in a folder that the user alone can write

`show`, `clear` and `warm` maintain that folder.
"""

from .compilation import awaiting
from .program import Program, compiling, optimise, program, ready
from .store import clear, show
from .warm import CASES, warm

__all__ = [
    "CASES",
    "Program",
    "awaiting",
    "clear",
    "compiling",
    "optimise",
    "program",
    "ready",
    "show",
    "warm",
]
