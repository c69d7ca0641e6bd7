"""The ledger of bad batches: data that a run must not meet again, in a file beside its checkpoints.

The trainer writes it before the action that names the data changes anything, keeps it over rollbacks and restarts, and
leaves the data out on replay. Reading it needs no torch.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from holter.producers.names import folder_name

BAD_BATCHES_FILE = "skip-ranges.json"
MAX_SAMPLE_IDS = 10_000
"""Of one range; of a longer one the first are kept, and only its batches count."""


class BadBatches(Struct, frozen=True, omit_defaults=True):
    """A range of data, all ends included. Positions are absolute: counted over epochs, from the start of the run.

    Samples and tokens are those that this rank read; they are None where the batches did not show how many they hold.
    """

    first: int
    last: int
    """Batches of the loader."""
    first_sample: int | None = None
    last_sample: int | None = None
    first_token: int | None = None
    last_token: int | None = None
    sample_ids: list[str | int] = []
    """The trainer's own, where it gives them."""
    first_step: int | None = None
    last_step: int | None = None
    """The optimizer steps that consumed it."""
    action: str = ""
    reason: str = ""
    ts: int = 0
    """When, in milliseconds."""

    def holds(self, index: int) -> bool:
        return self.first <= index <= self.last


class BadBatchesFile(Struct, frozen=True):
    ranges: list[BadBatches] = []


class NoBadBatches(Exception):
    """There is nothing to read there; the message says what was looked for."""


def read_bad_batches(root: Path, run: str) -> dict[int, list[BadBatches]]:
    """By rank, those of a run below the folder that was given to the trainer as ``checkpoints``.

    Raises:
        NoBadBatches: the folder has no checkpoints of that run, or its ledger cannot be read.
    """
    folder = root / folder_name(run)
    if not folder.is_dir():
        raise NoBadBatches(f"{root} has no checkpoints of a run named {run!r}")
    folders = {0: folder} | {int(each.name[5:]): each for each in folder.glob("rank-*") if each.name[5:].isdigit()}
    return {rank: _read(each / BAD_BATCHES_FILE) for rank, each in sorted(folders.items())}


def runs_below(root: Path) -> list[str]:
    """The folders that hold a trainer's attempts."""
    return sorted(path.parent.name for path in root.glob("*/attempts.json"))


def _read(path: Path) -> list[BadBatches]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=BadBatchesFile).ranges
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        raise NoBadBatches(f"{path} cannot be read: {error}") from None
