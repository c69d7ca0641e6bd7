"""A bus whose other end is a process of one's own, which judges and spools the run: local and offline mode."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from holter.pipeline.bus.child import Spawn, spawn_module
from holter.pipeline.bus.frames import Connect
from holter.pipeline.bus.pipe import ChildBus
from holter.schemas import Key

spawn_recorder = spawn_module("holter.pipeline.local")


@dataclass(frozen=True)
class Recording:
    """Where a run is kept and, with a ``signer``, that it is judged: actions come back signed by it."""

    folder: Path
    signer: Key | None = field(default=None, repr=False)
    epoch: int = 0
    """Of the actions; a later session of the same run needs a higher one."""

    def connect(self, client_id: str) -> Connect:
        client: dict[str, str | int] = {}
        if self.signer is not None:
            client = {"key_id": self.signer.key_id, "secret": self.signer.secret.hex(), "epoch": self.epoch}
        return Connect(str(self.folder), "", client, client_id)


def session_key() -> Key:
    """A key that only this process and its recorder know."""
    return Key(f"local-{secrets.token_hex(8)}", "issuer", secrets.token_bytes(32))


class RecorderBus(ChildBus):
    """The bus of a recorded run."""

    def __init__(self, recording: Recording, spawn: Spawn = spawn_recorder) -> None:
        super().__init__("recorder", spawn, recording.connect)
