"""Which checkpoints a run may be taken back to.

A checkpoint is healthy when no incident is open at its step or within 20 steps after it: damage shows late.
"""

from __future__ import annotations

from msgspec import Struct

HEALTHY_AFTER_STEPS = 20
MAX_KEPT = 8


class Checkpoint(Struct, omit_defaults=True):
    name: str
    step: int
    save_seconds: float
    is_in_memory: bool = False
    """A copy that the trainer's process holds, and that ends with it."""


class CheckpointState(Struct):
    pending: list[Checkpoint] = []
    healthy: list[Checkpoint] = []
    load_seconds: float | None = None


class CheckpointHealth:
    """The checkpoints of a run's surviving line, by the trainer's events and the incidents after them."""

    def __init__(self, state: CheckpointState | None = None) -> None:
        self.state = state or CheckpointState()

    def saved(self, checkpoint: Checkpoint) -> None:
        """A new one, not yet known to be healthy."""
        self.gone(checkpoint.name)
        self.state.pending.append(checkpoint)
        del self.state.pending[:-MAX_KEPT]

    def gone(self, name: str) -> None:
        """It is damaged, or gave way to a newer one."""
        self.state.pending = [kept for kept in self.state.pending if kept.name != name]
        self.state.healthy = [kept for kept in self.state.healthy if kept.name != name]

    def process_restarted(self) -> None:
        """What it held in memory is lost."""
        self.state.pending = [kept for kept in self.state.pending if not kept.is_in_memory]
        self.state.healthy = [kept for kept in self.state.healthy if not kept.is_in_memory]

    def incident_opened(self, onset_step: int) -> None:
        """What was saved less than 20 steps before the onset, or after it, may hold the damage."""
        self.state.pending = [kept for kept in self.state.pending if kept.step + HEALTHY_AFTER_STEPS < onset_step]

    def rewind(self, step: int) -> None:
        """The run went back: later checkpoints are of a line that ended."""
        self.state.pending = [kept for kept in self.state.pending if kept.step <= step]
        self.state.healthy = [kept for kept in self.state.healthy if kept.step <= step]

    def advance(self, step: int, incident_is_open: bool) -> Checkpoint | None:
        """Takes note of a judged step; returns a checkpoint that it proves healthy (the newest of several)."""
        if not self.state.pending:
            return None
        if incident_is_open:
            self.state.pending = [kept for kept in self.state.pending if kept.step + HEALTHY_AFTER_STEPS < step]
        proven = [kept for kept in self.state.pending if kept.step + HEALTHY_AFTER_STEPS <= step]
        if not proven:
            return None
        self.state.pending = [kept for kept in self.state.pending if kept.step + HEALTHY_AFTER_STEPS > step]
        self.state.healthy.extend(proven)
        del self.state.healthy[:-MAX_KEPT]
        return self.state.healthy[-1]

    def newest_healthy(self, before_step: int) -> Checkpoint | None:
        """The rollback target for an incident with this onset."""
        return next((kept for kept in reversed(self.state.healthy) if kept.step <= before_step), None)

    def healthy_before(self, step: int) -> tuple[Checkpoint, ...]:
        """All rollback targets for an incident with this onset, the newest first."""
        return tuple(kept for kept in reversed(self.state.healthy) if kept.step <= step)

    def load_seconds(self, checkpoint: Checkpoint) -> float:
        """As measured last; until then the time to save stands in."""
        return checkpoint.save_seconds if self.state.load_seconds is None else self.state.load_seconds
