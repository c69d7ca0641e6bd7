"""The checkpoints of one rank in both tiers, host memory and disk, and what is known of each."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from holter.producers.checkpoint_names import checkpoint_name
from holter.producers.notices import logger
from holter.producers.run import Run
from holter.producers.torch.checkpoint_files import CheckpointFiles, DamagedCheckpoint, Manifest
from holter.producers.torch.checkpoint_ledger import CheckpointLedger, Entry
from holter.producers.torch.checkpoint_saver import CheckpointSaver
from holter.producers.torch.interval_advice import IntervalAdvice
from holter.producers.torch.lineage import Lineage
from holter.producers.torch.memory_copies import MemoryCopies
from holter.schemas.telemetry import CheckpointQuarantined, CheckpointSaved, CheckpointVerified


class Checkpoints:
    """Saves, verifies, rotates, finds and reads. A name means one state, whichever tier holds it.

    The disk keeps the newest ``keep`` and the pinned one. Every file is read back once, off the step; one that turns
    out damaged is set aside with the reason, by then or when it is wanted.
    """

    def __init__(
        self,
        run: Run,
        files: CheckpointFiles,
        memory: MemoryCopies,
        lineage: Lineage,
        keep: int,
        advice: IntervalAdvice | None,
        clock_ms: Callable[[], int],
    ) -> None:
        files.remove_unfinished()
        self.files = files
        self.memory = memory
        self.ledger = CheckpointLedger(files.folder)
        self.saver = CheckpointSaver(files, self._saved, run.notices, clock_ms)
        self._run = run
        self._lineage = lineage
        self._keep = keep
        self._advice = advice
        self._clock_ms = clock_ms
        self._dropped: deque[str] = deque()
        self._set_aside: deque[str] = deque()
        for manifest in files.manifests():
            self.ledger.add(manifest.name, manifest.attempt, manifest.step)

    def save(self, attempt: int, step: int, state: dict[str, Any]) -> bool:
        return self.saver.save(checkpoint_name(attempt, step), attempt, step, state)

    def copy(self, attempt: int, step: int, state: dict[str, Any], is_on_disk: bool) -> None:
        """Into memory; announced unless the disk has the same one and announces it."""
        name, began = checkpoint_name(attempt, step), time.monotonic()
        dropped = self.memory.take(name, attempt, step, state, self._clock_ms())
        if dropped is None:
            text = "memory_gib has no room for two copies of this run's state: there is no memory tier"
            self._run.notices.warn("memory_tier", text)
            return
        self._dropped += [each for each in dropped if not self._has_file(each)]
        if not is_on_disk:
            manifest = self.memory.find(name)
            assert manifest is not None
            self._announce(manifest, time.monotonic() - began, "memory")

    def heal(self, name: str) -> None:
        """`watch` saw no incident within the steps after this one."""
        self.memory.heal(name)
        pinned = self.ledger.pinned
        self.ledger.heal(name, self._survives)
        if self.ledger.pinned != pinned:
            self.saver.later(self._write_ledger)

    def rewind(self, step: int) -> None:
        """The run went back to ``step``."""
        self.memory.rewind(step)
        self.ledger.repin(self._survives)
        self.saver.later(self._write_ledger)

    def find(self, name: str) -> Manifest | None:
        return self.memory.find(name) or self.files.find(name)

    def read(self, manifest: Manifest) -> dict[str, Any]:
        """From memory where it is there, else from the disk.

        Raises:
            DamagedCheckpoint: neither tier has it whole.
        """
        if self.memory.find(manifest.name) is None:
            return self.files.read(manifest)
        try:
            return self.memory.read(manifest.name)
        except DamagedCheckpoint:
            on_disk = self.files.find(manifest.name)
            if on_disk is None:
                raise
            return self.files.read(on_disk)

    def why_missing(self, name: str) -> str:
        aside = self.ledger.why_quarantined(name)
        return f"checkpoint {name!r} was set aside: {aside}" if aside else f"there is no checkpoint {name!r}"

    def set_aside(self, name: str, reason: str, step: int) -> None:
        """Of no use any more, in either tier; the files stay for people to look at."""
        self.memory.drop(name)
        self.ledger.quarantine(name, reason)
        self.ledger.repin(self._survives)
        try:
            self.files.quarantine(name)
            self.ledger.write()
        except OSError as error:
            self._run.notices.warn("quarantine", f"checkpoint {name} cannot be set aside: {error}")
        self._run.event(CheckpointQuarantined(name, reason[:2000]), step)

    @property
    def has_damaged(self) -> bool:
        """Whether :meth:`drop_damaged` has something to do."""
        return bool(self._set_aside)

    def drop_damaged(self) -> None:
        """Copies in memory of what turned out damaged on the disk: training thread only."""
        while self._set_aside:
            self.memory.drop(self._set_aside.popleft())

    def _saved(self, manifest: Manifest, seconds: float, blocked_seconds: float, damage: str) -> None:
        self.ledger.add(manifest.name, manifest.attempt, manifest.step)
        self._announce(manifest, seconds, "disk")
        if damage:
            self._quarantine_file(manifest, damage)
        else:
            self._verify(manifest)
        self._rotate()
        self._write_ledger()
        if self._advice is not None and self._run.rank == 0:
            said = self._advice.saved(manifest.step, time.monotonic(), blocked_seconds, seconds)
            if said is not None:
                logger.info("%s", said)

    def _announce(self, manifest: Manifest, seconds: float, tier: Literal["disk", "memory"]) -> None:
        dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
        event = CheckpointSaved(manifest.name, seconds, manifest.num_bytes, manifest.sha256, tier, dropped)
        self._run.event(event, manifest.step)

    def _verify(self, manifest: Manifest) -> None:
        began = time.monotonic()
        try:
            self.files.verify(manifest)
        except DamagedCheckpoint as error:
            self._quarantine_file(manifest, str(error))
            return
        self.ledger.verify(manifest.name)
        self._run.event(CheckpointVerified(manifest.name, time.monotonic() - began), manifest.step)

    def _quarantine_file(self, manifest: Manifest, reason: str) -> None:
        self.files.quarantine(manifest.name)
        self.ledger.quarantine(manifest.name, reason)
        self._set_aside.append(manifest.name)
        self._run.event(CheckpointQuarantined(manifest.name, reason[:2000]), manifest.step)
        self._run.notices.warn("damaged_checkpoint", f"checkpoint {manifest.name} is set aside: {reason}")

    def _rotate(self) -> None:
        by_age = [each.name for each in sorted(self.files.manifests(), key=lambda manifest: manifest.saved_ms)]
        kept = self._last_healthy().union(by_age[-self._keep :])
        self.files.remove(name for name in by_age if name not in kept)
        gone = self.ledger.keep_only(kept.intersection(by_age))
        self._dropped += [name for name in gone if self.memory.find(name) is None]

    def _last_healthy(self) -> set[str]:
        """The newest healthy one, and the one to take should it turn out damaged."""
        healthy = [entry.name for entry in self.ledger.entries if entry.is_healthy and self._survives(entry)]
        return set(healthy[-2:])

    def _write_ledger(self) -> None:
        try:
            self.ledger.write()
        except OSError as error:
            self._run.notices.warn("ledger", f"the ledger of checkpoints is not up to date: {error}")

    def _has_file(self, name: str) -> bool:
        return any(entry.name == name and entry.state != "quarantined" for entry in self.ledger.entries)

    def _survives(self, entry: Entry) -> bool:
        bound = self._lineage.surviving_step(entry.attempt)
        return bound is not None and entry.step <= bound
