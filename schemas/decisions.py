"""What was chosen about an incident, among what, why, and whether it helped."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from holter.schemas.bounds import (
    Attempt,
    Autonomy,
    Count,
    Digest,
    EffectName,
    Id,
    Millis,
    Name,
    Probability,
    Rank,
    Short,
    Step,
    Text,
)

Answer = Literal["", "done", "stale", "refused"]
"""``stale``: what it was about is no longer so. ``refused``: a rule forbids it, which ``held`` names."""


class Option(Struct, omit_defaults=True, frozen=True):
    """One thing that could be done. ``cost_seconds`` is the expected loss of job time, where it was computed."""

    name: Short
    effects: Annotated[list[EffectName], Meta(max_length=8)] = []
    cost_seconds: float | None = None
    available: bool = True
    note: Text = ""


class Decision(Struct, tag_field="record", tag="decision", omit_defaults=True, frozen=True):
    """``choice`` names one of ``options``; the passive one is ``monitor``.

    ``action`` is the id of the action that was issued, empty where nothing was: nothing to do, shadow, or ``held``
    by a rule of safety, which it names. Where it waits for a person, ``digest`` is that of the action to approve.

    What a ``person`` ordered is answered by a decision, too: ``choice`` is then the command, ``answers`` the id of the
    decision that it was about (its own id where there is none), and ``answer`` what became of it.
    """

    VERSION: ClassVar[int] = 1

    id: Id
    project: Name
    run: Name
    attempt: Attempt
    rank: Rank
    step: Step
    seq: Count
    ts: Millis
    incident: Id
    policy: Short
    mode: Autonomy
    options: Annotated[list[Option], Meta(max_length=32)]
    choice: Short
    reason: Text
    p_recover: Probability | None = None
    action: Annotated[str, Meta(max_length=64)] = ""
    digest: Digest = ""
    held: Text = ""
    person: Short = ""
    answers: Annotated[str, Meta(max_length=64)] = ""
    answer: Answer = ""
    v: int = 1


class Outcome(Struct, tag_field="record", tag="outcome", omit_defaults=True, frozen=True):
    """How an applied action turned out, measured in the attempt that followed it."""

    VERSION: ClassVar[int] = 1

    id: Id
    project: Name
    run: Name
    attempt: Attempt
    rank: Rank
    step: Step
    seq: Count
    ts: Millis
    action: Id
    incident: Id
    result: Literal["recovered", "unchanged", "worse", "unknown"]
    level_before: float
    level_after: float
    num_steps: Count
    lost_steps: Count = 0
    v: int = 1


Verdict = Decision | Outcome
