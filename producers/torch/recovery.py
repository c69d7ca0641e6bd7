"""Attempts, checkpoints and actions of one guarded run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from holter.producers.handover import Response
from holter.producers.latch import Latched, Permissions
from holter.producers.names import folder_name
from holter.producers.notices import logger
from holter.producers.run import Beginning, Run
from holter.producers.torch.checkpoint_files import CheckpointFiles, DamagedCheckpoint, Manifest
from holter.producers.torch.checkpoint_saver import CheckpointSaver
from holter.producers.torch.effects import Applied, Effects, Refused
from holter.producers.torch.lineage import Intent, Lineage
from holter.producers.torch.mismatch import Mismatch
from holter.producers.torch.ranks import shared_attempt
from holter.producers.torch.training_state import TrainingObjects
from holter.schemas.telemetry import CheckpointQuarantined, CheckpointSaved, CheckpointVerified, Parent, Resumed

_FINAL_SAVE_SECONDS = 5.0


@dataclass(frozen=True)
class CheckpointSettings:
    """Without a folder nothing is kept; without ``saves`` only the attempts are. Either way the run cannot go back."""

    folder: Path | None
    saves: bool = True
    every_steps: int = 50
    keep: int = 3


def checkpoint_folder(root: Path, run: str) -> Path:
    """One folder a run name, so that a new run never meets another's checkpoints."""
    return root / folder_name(run)


class Recovery:
    """Begins attempts, saves and restores, applies actions. All of it on the training thread but the writing."""

    def __init__(self, run: Run, objects: TrainingObjects, settings: CheckpointSettings) -> None:
        self.step = 0
        self.lineage = Lineage(settings.folder)
        self._run = run
        self._objects = objects
        self._settings = settings
        self._permissions = Permissions()
        self._measures: tuple[str, ...] = ()
        self._attempt = 0
        self._parent: Parent | None = None
        self._resumed: Manifest | None = None
        self._files = CheckpointFiles(settings.folder) if settings.folder is not None and settings.saves else None
        self._effects = Effects(objects, self.lineage, self._files)
        self._saver = None if self._files is None else self._make_saver(self._files)
        self._warn_of_orphans()

    @property
    def can_save(self) -> bool:
        return self._saver is not None

    def resume(self) -> None:
        """Takes up the newest checkpoint of the surviving line that is whole and fits; damaged ones are set aside."""
        for manifest in reversed(self._surviving()):
            assert self._files is not None
            try:
                state = self._files.read(manifest)
                self._objects.check(state)
            except DamagedCheckpoint as error:
                self._set_aside(manifest.name, str(error))
                continue
            except Mismatch as error:
                raise ValueError(f"cannot resume from {manifest.name}: {error}") from None
            self._objects.load(state)
            self.step, self._resumed = manifest.step, manifest
            logger.info("resumed from checkpoint %s at step %d", manifest.name, manifest.step)
            return

    def begin(self, permissions: Permissions, measures: tuple[str, ...]) -> None:
        """The first attempt of this process; answers what an earlier process left unfinished."""
        self._permissions, self._measures = permissions, measures
        last = self.lineage.last_attempt
        self._parent = None if last is None else Parent(last, self.step)
        self._begin_attempt()
        if self._resumed is not None:
            self._run.event(Resumed(self._resumed.name), self.step)
        for intent in self.lineage.intents:
            self._run.respond(_interrupted(intent, self.step))
        if self.lineage.intents:
            self.lineage.settle_intents()

    def checkpoint(self) -> None:
        """Copies the state of this step and lets it be written."""
        if self._saver is not None:
            name = f"{self._attempt}-{self.step:09d}"
            self._saver.save(name, self._attempt, self.step, self._objects.state())

    def checkpoint_if_due(self) -> None:
        every = self._settings.every_steps
        if every and self.step % every == 0:
            self.checkpoint()

    def act(self, latched: Latched) -> Applied | None:
        """Applies an action at this boundary and acknowledges it; None where it was refused."""
        if self._saver is not None:
            self._saver.wait()
        boundary = self.step
        try:
            prepared = self._effects.prepare(latched)
            applied = self._effects.apply(prepared, boundary)
        except Refused as refusal:
            self._refuse(latched, refusal)
            return None
        if applied.restored is not None:
            assert applied.restored.manifest is not None
            self._go_back(applied.restored.manifest)
            verified = CheckpointVerified(applied.restored.manifest.name, applied.restored.load_seconds)
            self._run.event(verified, self.step)
        self._acknowledge(latched, applied, boundary)
        if applied.wants_checkpoint:
            self.checkpoint()
        return applied

    def finish(self) -> None:
        if self._saver is not None and not self._saver.wait(_FINAL_SAVE_SECONDS):
            logger.warning("the last checkpoint is still being written; the process may end before it is whole")

    def _go_back(self, manifest: Manifest) -> None:
        self._parent = Parent(self._attempt, manifest.step)
        self.step = manifest.step
        self._begin_attempt()

    def _begin_attempt(self) -> None:
        self._attempt = shared_attempt(self.lineage.begin_attempt(self._parent, _now_ms()))
        self._run.begin(
            Beginning(
                self._attempt,
                self._permissions,
                self._parent,
                self.step,
                self._settings.every_steps if self.can_save else 0,
                self._measures,
            )
        )

    def _acknowledge(self, latched: Latched, applied: Applied, boundary: int) -> None:
        if self._run.control is not None:
            self._run.control.record_applied(latched)
        latency_ms = time.time_ns() / 1e6 - latched.latched_ms
        said = {"digest": latched.digest, "effects": tuple(applied.reports), "latency_ms": latency_ms}
        self._run.acknowledge(latched.action, "applied", boundary, **said)
        if applied.restored is not None:
            self.lineage.settle_intents()
        names = ", ".join(report.effect for report in applied.reports)
        logger.info("applied at step %d: %s (%s)", boundary, names, latched.action.reason or latched.action.incident)

    def _refuse(self, latched: Latched, refusal: Refused) -> None:
        if refusal.damaged is not None:
            self._set_aside(refusal.damaged, str(refusal))
        self._run.acknowledge(latched.action, "refused", self.step, reason=str(refusal))
        logger.warning("refused an action at step %d: %s", self.step, refusal)

    def _set_aside(self, name: str, reason: str) -> None:
        assert self._files is not None
        self._files.quarantine(name)
        self._run.event(CheckpointQuarantined(name, reason[:2000]), self.step)
        logger.warning("checkpoint %s is set aside: %s", name, reason)

    def _surviving(self) -> list[Manifest]:
        if self._files is None:
            return []
        bounds = {manifest.name: self.lineage.surviving_step(manifest.attempt) for manifest in self._files.manifests()}
        return [each for each in self._files.manifests() if each.step <= (bounds[each.name] or -1)]

    def _warn_of_orphans(self) -> None:
        if self._files is not None and self._files.manifests():
            logger.info("%s has checkpoints of this run; Guard(resume=True) goes on from them", self._files.folder)

    def _make_saver(self, files: CheckpointFiles) -> CheckpointSaver:
        files.remove_unfinished()
        return CheckpointSaver(files, self._settings.keep, self._healthy, self._saved, self._run.notices, _now_ms)

    def _healthy(self) -> str | None:
        control = self._run.control
        return None if control is None or control.health is None else control.health.checkpoint

    def _saved(self, manifest: Manifest, seconds: float) -> None:
        event = CheckpointSaved(manifest.name, seconds, manifest.num_bytes, manifest.sha256)
        self._run.event(event, manifest.step)


def _interrupted(intent: Intent, step: int) -> Response:
    reason = "the process ended while it was applied"
    return Response(
        intent.action, intent.action_attempt, intent.ordinal, "interrupted", step, reason, digest=intent.digest
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
