"""What lies in the folder of a recorded run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SPOOL_NAME = "records.spool"


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @property
    def spool(self) -> Path:
        """Everything the run said, with what was said of it."""
        return self.path / SPOOL_NAME

    @property
    def state(self) -> Path:
        """What the stages remember; may be lost, the spool holds all of it."""
        return self.path / "state"

    @property
    def synced(self) -> Path:
        """How far the spool was sent."""
        return self.path / "synced"

    @property
    def log(self) -> Path:
        """What went wrong while recording; missing where nothing did."""
        return self.path / "log.txt"


def find_run_folders(roots: list[Path]) -> list[RunFolder]:
    """The recorded runs in these folders and below them, each once, by path."""
    spools = {spool.resolve() for root in roots for spool in root.rglob(SPOOL_NAME)}
    return [RunFolder(spool.parent) for spool in sorted(spools)]
