"""Compiled programs: cheap to compile where the work is small, bounded in memory, kept on disk between processes.

`@program` stands where `@eqx.filter_jit` would. A call goes through five files:

    program.py      splits the arguments into arrays and the rest, and finds the executable in memory
    compilation.py  traces, lowers and compiles one that is new; packs and unpacks one for the disk
    identity.py     writes the rest of the arguments as a text that means the same in every process
    room.py         drops what was compiled before a process has no memory maps left
    store.py        keeps executables in a folder that the user alone can write

`show`, `clear` and `warm` are for whoever looks after that folder.
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
