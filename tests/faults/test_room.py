"""Compiled code is dropped before a process runs out of memory maps."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from temperance.programs import program, room
from temperance.programs.program import _EXECUTABLES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def maps(tmp_path, monkeypatch):
    """A process of 100 maps, as far as `room` knows, among the 1,000 that it is allowed; call it to set the number."""

    def hold(number):
        room.MAPS.write_text("a map\n" * number)

    for name, content in (("MAPS", ""), ("ALLOWED", "1000\n")):
        (tmp_path / name).write_text(content)
        monkeypatch.setattr(room, name, tmp_path / name)
    for name, value in (("_made", 1), ("_look", 1), ("_full", 0)):
        monkeypatch.setattr(room, name, value)
    hold(100)
    return hold


def test_half_of_what_is_allowed_is_full(maps):
    dropped = []
    for held, expected in ((100, 0), (499, 0), (500, 1), (700, 1), (750, 2)):  # 500 did not help: then at 750
        maps(held)
        room._made, room._look = 1, 1
        room.make_room(lambda: dropped.append(1))
        assert len(dropped) == expected


def test_looks_are_rare_where_there_is_room(maps, monkeypatch):
    room.ALLOWED.write_text("65530")
    looks = []
    monkeypatch.setattr(room, "_maps", lambda: looks.append(1) or 25_000)
    for _ in range(200):
        room.another()
        room.make_room(lambda: None)
    assert len(looks) == 1 + 200 // ((32_765 - 25_000) // room.EACH)


def test_a_program_is_compiled_again_after_it_was_dropped(maps):
    traced = []

    @program
    def double(x):
        traced.append(x.shape)
        return 2 * x

    x = np.ones(3)
    assert double(x)[0] == double(x)[0] == 2.0
    maps(900)
    room._made = room._look
    np.testing.assert_array_equal(double(x), [2.0, 2.0, 2.0])
    assert len(traced) == 2 and len(_EXECUTABLES) == 1


def test_nothing_is_dropped_inside_a_trace(maps):
    dropped = []
    maps(900)

    @jax.jit
    def traced(x):
        room.make_room(lambda: dropped.append(1))
        return 2 * x

    traced(jnp.ones(2))
    assert not dropped
    room.make_room(lambda: dropped.append(1))
    assert dropped


@pytest.mark.skipif(not Path("/proc/sys/vm/max_map_count").exists(), reason="memory maps are counted on Linux")
@pytest.mark.slow
def test_many_shapes_in_a_crowded_process():
    """A segmentation fault in libgcc ended a soak after eight minutes, and fits like these within ten."""
    command = [sys.executable, "-m", "tests.faults.crowded", "3000"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert len(ended.stdout.splitlines()) == 16
