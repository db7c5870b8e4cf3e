"""Checkpoints of a run on a cluster: the usual file, and beside it the local blocks to which its state refers.

Local blocks pass through the client only for the checkpoint. Their file is written first, under a new name, and older
ones are removed last, so the two files on disk belong together whenever a run is cut short.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import storage
from ..errors import DamagedFile
from ..inference.checkpoint import Checkpoint, identity
from .engine import Session
from .model import Distributed, Versions, sessions


class ClusterCheckpoint(Checkpoint):
    """A checkpoint that also keeps the local blocks on the workers."""

    def __init__(self, path: Any, every: float, model: Distributed, method: Any, data: Any, key: Any):
        # The session's number differs from call to call, and so does the identity of a corpus on the host.
        super().__init__(path, every, identity(model.inner, method, (data, model.sample), key))
        self.session: Session = sessions[int(model.session)]

    def read(self, carry: Any, history: Any) -> tuple[Any, Any] | None:
        kept = super().read(carry, history)
        if kept is None:
            return None
        versions = _versions(kept[0])
        if versions is not None and versions.max(initial=-1) >= 0:
            path = self._beside(versions)
            if not path.exists():
                raise DamagedFile(f"{self.path} has lost the file {path.name} that belongs to it")
            self.session.restore(versions, storage.load(path))
        return kept

    def _save(self, carry: Any, history: list[Any]) -> None:
        versions, beside = _versions(carry), None
        if versions is not None and versions.max(initial=-1) >= 0:
            beside = self._beside(versions)
        if versions is not None and beside is not None and not beside.exists():
            storage.save(self.session.held(versions), beside)
        super()._save(carry, history)
        for old in self.path.parent.glob(f"{self.path.name}.local-*"):
            if old != beside:
                old.unlink(missing_ok=True)

    def _beside(self, versions: np.ndarray) -> Path:
        return self.path.with_name(f"{self.path.name}.local-{versions.max(initial=-1)}")


def _versions(carry: Any) -> np.ndarray | None:
    """The versions (restarts, partitions) of local blocks, if the model has any."""
    leaves = jax.tree.leaves(carry, is_leaf=lambda leaf: isinstance(leaf, Versions))
    found = [np.asarray(leaf.version) for leaf in leaves if isinstance(leaf, Versions)]
    return found[0] if found else None
