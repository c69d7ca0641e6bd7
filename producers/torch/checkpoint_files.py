"""Checkpoints in a folder: a data file, and a manifest that exists only once the data is whole and on the disk.

A rank whose weights are sharded writes its own parts into a file of its own. ``torch.distributed.checkpoint`` writes
them so that another number of ranks can read them, but agrees on every save by collectives: a rank that lags or died
would hold up the others' savers. Another number of ranks could not go on exactly in any case, since random states and
data positions belong to a rank.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import torch
from msgspec import Struct

from holter.producers.torch.lineage import Lineage
from holter.producers.torch.sharding import is_packed
from holter.producers.torch.state_file import write_state
from holter.producers.torch.synced_files import sync_folder, write_record

FORMAT_VERSION = 2
_CHUNK_BYTES = 1 << 20
_MAX_QUARANTINED_FILES = 2
"""A run whose weights are not finite saves damage until somebody stops it."""


class Manifest(Struct, frozen=True):
    name: str
    attempt: int
    step: int
    num_bytes: int
    sha256: str
    saved_ms: int
    version: int = FORMAT_VERSION

    @property
    def is_on_disk(self) -> bool:
        """What is only in memory has no hash."""
        return bool(self.sha256)


class DamagedCheckpoint(Exception):
    """A checkpoint that must not be loaded; the message says why."""


class CheckpointFiles:
    """Reads and writes; knows nothing of training. One thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._has_loaded = False
        self._written_plain = ""
        """The last one written, if all of it is what a load of tensors and plain values takes."""

    def data_path(self, name: str) -> Path:
        return self.folder / f"{name}.pt"

    def write(self, name: str, attempt: int, step: int, state: dict[str, Any], now_ms: int) -> Manifest:
        """Serialises, syncs, renames; returns once the checkpoint would survive a power cut.

        Raises:
            OSError: the disk did not take it; nothing is left behind that could be mistaken for a checkpoint.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.folder / f".{name}.new"
        try:
            written = write_state(new, state)
            new.replace(self.data_path(name))
        finally:
            new.unlink(missing_ok=True)
        sync_folder(self.folder)
        self._written_plain = name if written.is_plain else ""
        manifest = Manifest(name, attempt, step, written.num_bytes, written.sha256, now_ms)
        write_record(self._manifest_path(name), manifest)
        return manifest

    def remove_unfinished(self) -> None:
        """What a process that died left half written."""
        for path in self.folder.glob(".*.new"):
            path.unlink(missing_ok=True)

    def manifests(self) -> list[Manifest]:
        """The whole checkpoints, oldest first."""
        found = (_manifest(path) for path in self.folder.glob("*.json"))
        return sorted((each for each in found if each is not None), key=lambda each: (each.attempt, each.step))

    def find(self, name: str) -> Manifest | None:
        return next((manifest for manifest in self.manifests() if manifest.name == name), None)

    def read(self, manifest: Manifest) -> dict[str, Any]:
        """The state in host memory; only tensors and plain values are ever unpickled.

        Raises:
            DamagedCheckpoint: the bytes are not those that were written, or the weights are not finite.
        """
        state = self._load(manifest, "cpu")
        check_finite(self.data_path(manifest.name).name, state.get("model", {}))
        return state

    def verify(self, manifest: Manifest) -> None:
        """Reads this folder's part back, against what was written; that weights are finite is not looked at.

        Whether it can be loaded is tried of the first, and of one with more in it than tensors and plain values: the
        bytes being the same, unpickling them shows nothing new, and would keep the training thread from Python. No
        file is mapped: one that somebody cuts short would end the training with SIGBUS.

        Raises:
            DamagedCheckpoint: as :meth:`read`, but for weights that are not finite.
        """
        if self._has_loaded and manifest.name == self._written_plain:
            self._check_bytes(manifest)
        else:
            self._load(manifest, "meta")
            self._has_loaded = True

    def _load(self, manifest: Manifest, device: str) -> dict[str, Any]:
        self._check_bytes(manifest)
        path = self.data_path(manifest.name)
        try:
            return torch.load(path, map_location=device, weights_only=True)  # type: ignore[no-any-return]
        except OSError as error:
            raise DamagedCheckpoint(f"{path.name} cannot be read: {error.strerror}") from None
        except Exception as error:  # unpickling raises what it likes
            raise DamagedCheckpoint(f"{path.name} cannot be loaded: {error}"[:500]) from None

    def _check_bytes(self, manifest: Manifest) -> None:
        path = self.data_path(manifest.name)
        try:
            digest = _sha256(path)
        except OSError as error:
            raise DamagedCheckpoint(f"{path.name} cannot be read: {error.strerror}") from None
        if digest != manifest.sha256:
            raise DamagedCheckpoint(f"{path.name} is not what was written (SHA-256 differs)")

    def quarantine(self, name: str) -> None:
        """Takes it out of the checkpoints; the files of the last few stay for people to look at."""
        path = self._manifest_path(name)
        if path.exists():
            path.replace(path.with_suffix(".quarantined"))
        aside = sorted(self.folder.glob("*.quarantined"), key=lambda each: each.stat().st_mtime)
        for old in aside[:-_MAX_QUARANTINED_FILES]:
            self.data_path(old.stem).unlink(missing_ok=True)
            old.unlink(missing_ok=True)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._manifest_path(name).unlink(missing_ok=True)
            self.data_path(name).unlink(missing_ok=True)

    def _manifest_path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


class PartialFiles(CheckpointFiles):
    """Of a rank that keeps only what it does not share with rank 0, and reads the rest where rank 0 wrote it."""

    def __init__(self, folder: Path, lead_folder: Path) -> None:
        super().__init__(folder)
        self._lead = CheckpointFiles(lead_folder)

    def sees_lead(self, attempt: int) -> bool:
        """Whether what rank 0 wrote can be read here: the attempt that it has just begun."""
        return Lineage(self._lead.folder).last_attempt == attempt

    def read(self, manifest: Manifest) -> dict[str, Any]:
        shared = self._lead.find(manifest.name)
        if shared is None:
            raise DamagedCheckpoint(f"rank 0's part of {manifest.name} is missing")
        return self._lead.read(shared) | super().read(manifest)


def _manifest(path: Path) -> Manifest | None:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None
    return manifest if manifest.version == FORMAT_VERSION and manifest.name == path.stem else None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def check_finite(name: str, model_state: dict[str, Any]) -> None:
    """Raises :class:`DamagedCheckpoint` at the first weight that is not."""
    tensors = {key: value["part"] if is_packed(value) else value for key, value in model_state.items()}
    floats = {key: each for key, each in tensors.items() if isinstance(each, torch.Tensor) and each.is_floating_point()}
    if _is_norm_finite([each for each in floats.values() if each.element_size() > 1]):
        floats = {key: each for key, each in floats.items() if each.element_size() == 1}  # of eight bits there is none
    for key, each in floats.items():
        if not torch.isfinite(each if each.element_size() > 1 else each.float()).all():
            raise DamagedCheckpoint(f"{name} has a non-finite value in {key}")


def _is_norm_finite(tensors: list[torch.Tensor]) -> bool:
    """Finite norms have finite terms: a tenth of the work of a look at each, which norms that are not call for."""
    return not tensors or all(map(math.isfinite, torch.stack(torch._foreach_norm(tensors)).tolist()))
