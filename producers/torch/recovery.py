"""Attempts, checkpoints and actions of one guarded run."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holter.producers.checkpoint_names import checkpoint_name, numbers_of
from holter.producers.handover import Response
from holter.producers.latch import Latched, Permissions
from holter.producers.names import folder_name
from holter.producers.notices import logger
from holter.producers.run import Beginning, Run
from holter.producers.torch.attempts import Attempts
from holter.producers.torch.ballots import MEETING_PATIENCE, VOTE_PATIENCE, Ballot, shared_action, vote
from holter.producers.torch.checkpoint_files import CheckpointFiles, DamagedCheckpoint, Manifest, PartialFiles
from holter.producers.torch.checkpoint_saver import CheckpointSaver
from holter.producers.torch.checkpoints import Checkpoints
from holter.producers.torch.effects import Applied, Effects, Prepared, Refused
from holter.producers.torch.interval_advice import IntervalAdvice, mtbf_seconds
from holter.producers.torch.lineage import Intent, Lineage
from holter.producers.torch.memory_copies import MemoryCopies
from holter.producers.torch.mismatch import Mismatch
from holter.producers.torch.ranks import Ranks, Word
from holter.producers.torch.training_state import TrainingObjects
from holter.schemas.telemetry import CheckpointVerified, Resumed

_FINAL_SAVE_SECONDS = 5.0


@dataclass(frozen=True)
class CheckpointSettings:
    """Without a root nothing is kept; without ``saves`` only the attempts are. Either way the run cannot go back."""

    root: Path | None
    saves: bool = True
    is_shared: bool = False
    """Whether all ranks have the same weights and optimizer state, which rank 0 then keeps for all."""
    every_steps: int = 50
    keep: int = 3
    memory_every_steps: int = 0
    memory_bytes: int = 2**30


def checkpoint_folder(root: Path, run: str, rank: int = 0) -> Path:
    """One folder a run name, so that a new run never meets another's checkpoints, and one in it for further ranks."""
    folder = root / folder_name(run)
    return folder / f"rank-{rank:05d}" if rank else folder


class Recovery:
    """Begins attempts, saves and restores, applies actions. All of it on the training thread but the writing.

    With several ranks each has one, and whatever they do, they do together.
    """

    def __init__(self, run: Run, objects: TrainingObjects, settings: CheckpointSettings, ranks: Ranks) -> None:
        self.step = 0
        self._run = run
        self._objects = objects
        self._settings = settings
        self._ranks = ranks
        self._permissions = Permissions()
        self._measures: tuple[str, ...] = ()
        self._resumed: Manifest | None = None
        self._heard_pins = (0, 0, 0, 0)
        keeps = settings.root is not None and (ranks.is_lead or ranks.is_armed)
        folder = checkpoint_folder(settings.root, run.name, ranks.rank) if keeps and settings.root else None
        self.lineage = Lineage(folder)
        self._attempts = Attempts(self.lineage, ranks, run.notices, _now_ms)
        self._files = None if folder is None or not settings.saves else self._open_files(folder)
        self._checkpoints = None if self._files is None else self._make_checkpoints(self._files)
        self._effects = Effects(objects, self.lineage, self._checkpoints)
        self._warn_of_orphans()

    @property
    def can_save(self) -> bool:
        return self._checkpoints is not None

    @property
    def _saver(self) -> CheckpointSaver | None:
        return None if self._checkpoints is None else self._checkpoints.saver

    def resume(self) -> None:
        """Takes up the newest checkpoint of the surviving line that is whole and fits; damaged ones are set aside.

        Raises:
            ValueError: it does not fit, or the ranks cannot agree on one.
        """
        candidates = [manifest.name for manifest in self._surviving()]
        while name := self._lead_says(candidates.pop() if candidates else ""):
            state, ballot = self._read_to_resume(name)
            objection = vote(self._ranks, ballot).objection
            if objection is None:
                assert state is not None
                self._take_up(name, state)
                return
            if not objection.damaged:
                raise ValueError(f"cannot resume from {name}: {objection.reason}")
            self._set_aside(name, objection.reason)

    def begin(self, permissions: Permissions, measures: tuple[str, ...]) -> Permissions:
        """The first attempt of this process; answers what an earlier process left unfinished.

        Returns:
            What all ranks are able to do, and what is allowed.
        """
        self._measures = measures
        self._attempts.begin_first(self.step, MEETING_PATIENCE)
        self._permissions = self._common(permissions)
        self._announce_attempt()
        if self._resumed is not None:
            self._run.event(Resumed(self._resumed.name), self.step)
        if self._ranks.is_lead:
            for intent in self.lineage.intents:
                self._run.respond(_interrupted(intent, self.step))
        if self.lineage.intents:
            self.lineage.settle_intents()
        return self._permissions

    @property
    def is_idle(self) -> bool:
        """Whether a rank that is alone has nothing to keep, hear or apply at this boundary, as at most of them."""
        every, control, kept = self._settings.every_steps, self._run.control, self._checkpoints
        return (
            self._ranks.num_ranks == 1
            and (control is None or control.is_idle)
            and (kept is None or not (kept.has_damaged or self._settings.memory_every_steps))
            and (every == 0 or self.step % every != 0)
        )

    @property
    def is_word_awaited(self) -> bool:
        """Whether a state may be kept at the next boundary; the same on all ranks."""
        every = self._settings.every_steps
        return bool(self._settings.memory_every_steps or (every and (self.step + 1) % every == 0))

    def word(self) -> Word:
        """What this rank has to say at this boundary."""
        control, kept = self._run.control, self._checkpoints
        wants = control is not None and control.is_due(self.step)
        if kept is None:
            return Word(wants)
        for name in () if control is None else control.take_healthy():
            kept.heal(name)
        if self._ranks.num_ranks == 1:  # the rest is for others
            return Word(wants, kept.saver.is_busy)
        pinned, copy = (kept.ledger.pinned, kept.memory.pinned) if self._ranks.is_lead else (None, None)
        return Word(
            wants,
            kept.saver.is_busy,
            *(numbers_of(pinned.name) if pinned else (0, 0)),
            *(numbers_of(copy.name) if copy else (0, 0)),
            kept.memory.num_lacking,
        )

    def checkpoint(self) -> bool:
        """Copies the state of this step and lets it be written; whether that began."""
        if self._checkpoints is None:
            return False
        is_part = self._settings.is_shared and not self._ranks.is_lead
        state = self._objects.own_state() if is_part else self._objects.state()
        return self._checkpoints.save(self._attempts.number, self.step, state)

    def checkpoint_if_due(self, word: Word) -> None:
        """Into memory, onto the disk or both, as the settings say."""
        kept, every = self._checkpoints, self._settings.every_steps
        if kept is None:
            return
        self._hear(kept, word)
        is_saved = False
        if every and self.step % every == 0:
            if word.is_saving:
                kept.saver.skip()
            else:
                is_saved = self.checkpoint()
        if kept.memory.is_due(self.step) and "rollback" in self._permissions.allow & self._permissions.capabilities:
            kept.copy(self._attempts.number, self.step, self._objects.state(), is_saved)

    def _hear(self, kept: Checkpoints, word: Word) -> None:
        """All ranks keep what the lead knows to be healthy."""
        kept.drop_damaged()
        if self._ranks.num_ranks == 1:
            return
        pins = (word.pinned_attempt, word.pinned_step, word.copy_attempt, word.copy_step)
        if pins != self._heard_pins:
            self._heard_pins = pins
            for attempt, step in (pins[:2], pins[2:]):
                kept.heal(checkpoint_name(attempt, step))
        kept.memory.hear(word.copies_lacking)

    def take_action(self, word: Word) -> Latched | None:
        """The action to apply at this boundary, the same on every rank."""
        control = self._run.control
        if not word.wants_action and (self._ranks.is_armed or control is None or not control.is_due(self.step)):
            return None
        own = None if control is None else control.take(self.step)
        latched = shared_action(self._ranks, own)
        if latched is None and own is not None:
            self._refuse(own, Ballot("the ranks of this job do not agree any more"))
        return latched

    def act(self, latched: Latched) -> Applied | None:
        """Applies an action at this boundary and acknowledges it; None where it was refused."""
        if self._saver is not None:
            self._saver.wait()
        boundary = self.step
        prepared = self._prepare(latched)
        applied = None if prepared is None else self._begin_effects(prepared)
        if prepared is None or applied is None:
            return None
        self._effects.finish(prepared, applied, boundary)
        if applied.restored is not None:
            assert applied.restored.manifest is not None
            self._go_back(applied.restored.manifest)
            verified = CheckpointVerified(applied.restored.manifest.name, applied.restored.load_seconds)
            self._run.event(verified, self.step)
        self._acknowledge(latched, applied, boundary)
        self.lineage.settle_intents()
        if applied.wants_checkpoint:
            self.checkpoint()
        return applied

    def finish(self) -> None:
        self._ranks.leave()
        if self._saver is not None and not self._saver.wait(_FINAL_SAVE_SECONDS):
            logger.warning("the last checkpoint is still being written; the process may end before it is whole")

    def _prepare(self, latched: Latched) -> Prepared | None:
        prepared, ballot = None, Ballot()
        try:
            prepared = self._effects.prepare(latched)
            ballot = Ballot(groups=prepared.groups)
        except Refused as refusal:
            ballot = Ballot(str(refusal), refusal.damaged or "")
        except Exception as error:  # nothing is changed yet, and it is no reason to end the training
            ballot = Ballot(f"it could not be prepared: {error!r}"[:500])
        result = vote(self._ranks, ballot)
        if prepared is None or result.objection is not None:
            self._refuse(latched, result.objection or ballot)
            return None
        return replace(prepared, groups=result.lead.groups)

    def _begin_effects(self, prepared: Prepared) -> Applied | None:
        applied, ballot = None, Ballot()
        try:
            applied = self._effects.begin(prepared, self.step)
        except Refused as refusal:
            ballot = Ballot(str(refusal))
        objection = vote(self._ranks, ballot).objection
        if objection is None:
            return applied
        if applied is not None:
            self._effects.undo(prepared, applied)
        self._refuse(prepared.latched, objection)
        return None

    def _go_back(self, manifest: Manifest) -> None:
        self.step = manifest.step
        self._attempts.go_back(manifest.step, VOTE_PATIENCE)
        if self._checkpoints is not None:
            self._checkpoints.rewind(manifest.step)
        self._announce_attempt()

    def _common(self, permissions: Permissions) -> Permissions:
        """What every rank is able to do; without agreement only what each may do by itself."""
        able = permissions.capabilities
        if isinstance(self._files, PartialFiles) and not self._files.sees_lead(self._attempts.number):
            able -= {"rollback"}
        said = self._ranks.gather(",".join(sorted(able)).encode(), MEETING_PATIENCE)
        if said is None:
            return replace(permissions, capabilities=able & {"nan_guard"})
        by_rank = [set(each.decode().split(",")) for each in said]
        return replace(
            permissions, capabilities=frozenset(name for name in able if all(name in each for each in by_rank))
        )

    def _announce_attempt(self) -> None:
        every = self._settings.every_steps if self.can_save else 0
        permissions = self._permissions if self._ranks.is_lead else Permissions()  # others read no control
        number, parent = self._attempts.number, self._attempts.parent
        self._run.begin(Beginning(number, permissions, parent, self.step, every, self._measures))

    def _acknowledge(self, latched: Latched, applied: Applied, boundary: int) -> None:
        if not self._ranks.is_lead:
            return
        if self._run.control is not None:
            self._run.control.record_applied(latched)
        latency_ms = time.time_ns() / 1e6 - latched.latched_ms
        said = {"digest": latched.digest, "effects": tuple(applied.reports), "latency_ms": latency_ms}
        self._run.acknowledge(latched.action, "applied", boundary, **said)

    def _refuse(self, latched: Latched, objection: Ballot) -> None:
        if objection.damaged:
            self._set_aside(objection.damaged, objection.reason)
        if self._ranks.is_lead:
            self._run.acknowledge(latched.action, "refused", self.step, reason=objection.reason[:2000])
            logger.warning("refused an action at step %d: %s", self.step, objection.reason)

    def _set_aside(self, name: str, reason: str) -> None:
        assert self._checkpoints is not None
        self._checkpoints.set_aside(name, reason, self.step)
        if self._ranks.is_lead:
            logger.warning("checkpoint %s is set aside: %s", name, reason)

    def _lead_says(self, text: str) -> str:
        said = self._ranks.gather(text.encode(), MEETING_PATIENCE)
        if said is None and self._files is not None:
            raise ValueError("cannot resume: the ranks of this job do not agree on a checkpoint")
        return "" if said is None else said[0].decode()

    def _read_to_resume(self, name: str) -> tuple[dict[str, Any] | None, Ballot]:
        manifest = None if self._files is None else self._files.find(name)
        if self._files is None or manifest is None:
            return None, Ballot(f"rank {self._ranks.rank} has no part of it", name)
        try:
            state = self._files.read(manifest)
            self._objects.check(state)
        except DamagedCheckpoint as error:
            return None, Ballot(str(error), name)
        except (Mismatch, KeyError, TypeError) as error:
            return None, Ballot(str(error))
        return state, Ballot()

    def _take_up(self, name: str, state: dict[str, Any]) -> None:
        assert self._files is not None
        manifest = self._files.find(name)
        assert manifest is not None
        self._objects.load(state)
        self.step, self._resumed = manifest.step, manifest
        logger.info("resumed from checkpoint %s at step %d", manifest.name, manifest.step)

    def _surviving(self) -> list[Manifest]:
        if self._files is None:
            return []
        bounds = {manifest.name: self.lineage.surviving_step(manifest.attempt) for manifest in self._files.manifests()}
        return [each for each in self._files.manifests() if each.step <= (bounds[each.name] or -1)]

    def _warn_of_orphans(self) -> None:
        if self._ranks.is_lead and self._files is not None and self._files.manifests():
            logger.info("%s has checkpoints of this run; Guard(resume=True) goes on from them", self._files.folder)

    def _open_files(self, folder: Path) -> CheckpointFiles:
        if self._ranks.is_lead or not self._settings.is_shared:
            return CheckpointFiles(folder)
        return PartialFiles(folder, folder.parent)

    def _make_checkpoints(self, files: CheckpointFiles) -> Checkpoints:
        settings = self._settings
        memory = MemoryCopies(settings.memory_every_steps, settings.memory_bytes)
        advice = IntervalAdvice(settings.every_steps, self._mtbf_seconds) if settings.every_steps else None
        return Checkpoints(self._run, files, memory, self.lineage, settings.keep, advice, _now_ms)

    def _mtbf_seconds(self) -> float:
        """From the attempts of this run: every one after the first began after an interruption or a rollback."""
        first = self.lineage.first_attempt or _now_ms()  # an attempt's number is the time at which it began, or later
        elapsed_seconds = max(0.0, (_now_ms() - first) / 1000)
        return mtbf_seconds(self._ranks.num_ranks, self.lineage.num_attempts - 1, elapsed_seconds)


def _interrupted(intent: Intent, step: int) -> Response:
    reason = "the process ended while it was applied"
    return Response(
        intent.action, intent.action_attempt, intent.ordinal, "interrupted", step, reason, digest=intent.digest
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
