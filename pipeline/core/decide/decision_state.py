"""What deciding about a run has to remember. Fields are only ever added, with defaults: old bytes decode."""

from __future__ import annotations

from msgspec import Struct

from holter.pipeline.core.decide.checkpoints import CheckpointState
from holter.pipeline.core.decide.course import CourseState
from holter.pipeline.core.decide.outcomes import PendingOutcome
from holter.pipeline.core.decide.progress import ProgressState
from holter.pipeline.core.decide.safety import SafetyState
from holter.schemas.bounds import EffectName
from holter.schemas.commands import Prior


class Proposal(Struct):
    """An action that waits for a person: ``body`` are the bytes that are signed and sent once it is approved."""

    decision: str
    digest: str
    body: bytes
    incident: str
    kind: str
    effects: list[EffectName]
    expires_ts: int
    lost_steps: int
    lost_seconds: float


class DecisionState(Struct):
    policy: str
    safety: SafetyState
    checkpoints: CheckpointState
    step_seconds: list[float] = []
    lr_factor: float = 1.0
    """As it was applied last;"""
    told: tuple[str, str, str] = ("", "", "")
    """Incident, choice and what held it back, as last decided."""
    pending: PendingOutcome | None = None
    settings: dict[str, float] = {}
    """As people set them, by dotted name."""
    priors: dict[str, Prior] = {}
    helped: dict[str, Prior] = {}
    """Outcomes on this run, by kind of incident and effect."""
    course: CourseState | None = None
    progress: ProgressState | None = None
    proposal: Proposal | None = None
    rejected: list[str] = []
    """Incident and effects that a person does not want, the newest 16."""
    commands: list[str] = []
    """Ids of the newest commands: each is carried out once."""
    policy_ts: int = 0
    """When the newest policy was signed: an older one changes nothing."""
    last: tuple[int, int, int, int, int] | None = None
    """Attempt, rank, step, ts and seq of the last record."""
    num_by_kind: dict[str, int] = {}
    """Incidents of the run, the open one included."""
    lr_ramp: tuple[int, int] = (0, 0)
    """at so many executed steps, to be back at 1 after so many more; 0 keeps it."""
    counted: str = ""
    """The incident that was counted last."""
