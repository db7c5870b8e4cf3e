"""Rows over several devices: the numbers of one device, and every device at work on its own rows."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from temperance.models import Data

ROOT = Path(__file__).resolve().parents[2]
FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_NUMPY_RANK_PROMOTION": "raise"}
MORE = (
    "missing", "topics", "svi", "restarts", "memoised", "annealed", "tempered", "locally", "regression", "factorial",
    "factors", "topics svi", "held out", "stream",
)  # fmt: skip


def on_four(*names: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.models.on_devices", *names]
    done = subprocess.run(command, env=os.environ | FOUR, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {found["name"]: found for found in map(json.loads, done.stdout.splitlines())}


def check(found: dict[str, Any]) -> None:
    one, many = found["history"]
    assert found["devices"] == [1, 4]
    assert found["shard"] == [found["rows"] // 4] * 4
    for name in one:
        np.testing.assert_allclose(many[name], one[name], rtol=1e-9, err_msg=name)


def test_blocks_of_rows_lie_over_all_devices() -> None:
    """Two blocks, a number of rows that four does not divide; only sums travel from device to device."""
    found = on_four("blocks")["blocks"]
    check(found)
    assert found["collectives"] == ["all-reduce"]
    # 2048 rows of a block on each device (16,002 rows in a bucket of 16,384), and nowhere the 8192 of a whole block.
    sizes = {int(rows) for rows in re.findall(r"f64\[(\d{4,})", found["code"])}
    assert sizes == {2048, 4096}


@pytest.fixture(scope="module")
def more() -> dict[str, Any]:
    return on_four(*MORE, "ep", "topics on the host", "gibbs")


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_the_same_numbers_on_four_devices(more: dict[str, Any], name: str) -> None:
    check(more[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ep", "topics on the host"])
def test_work_from_row_to_row_and_the_host_s_kernels_stay_on_one_device(more: dict[str, Any], name: str) -> None:
    one, many = more[name]["history"]
    assert more[name]["devices"] == [1, 1]
    assert many == one


@pytest.mark.slow
def test_sampling_on_four_devices(more: dict[str, Any]) -> None:
    """Other blocks, so other draws, of the same posterior."""
    found = more["gibbs"]
    assert found["devices"] == [1, 4]
    one, many = (np.asarray(numbers["log_joint"]) for numbers in found["history"])
    assert abs(one.mean() - many.mean()) < 5 * (one.std() + many.std()) / np.sqrt(one.size / 10)


def test_data_of_a_machine_with_more_devices_lie_over_those_that_are_here() -> None:
    data = Data(jnp.zeros((12, 1)), jnp.ones(12), 12, 3, devices=4)
    assert data.cuts == (3, 1) and data.block_size == 4 and not data.is_spread
    assert jax.tree.structure(data) != jax.tree.structure(dataclasses.replace(data, devices=1))
