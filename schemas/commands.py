"""What people tell Holter. All of it travels signed with the person's key."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from holter.schemas.bounds import Autonomy, Digest, EffectName, Id, Millis, Name, Short, Text
from holter.schemas.control import Effect


class Approve(Struct, tag_field="record", tag="approve", omit_defaults=True, frozen=True):
    """Let the proposed action of a decision be issued; ``digest`` is of the action that the person saw."""

    VERSION: ClassVar[int] = 1

    project: Name
    run: Name
    decision: Id
    digest: Digest
    person: Short
    ts: Millis
    reason: Text = ""
    v: int = 1


class Reject(Struct, tag_field="record", tag="reject", omit_defaults=True, frozen=True):
    VERSION: ClassVar[int] = 1

    project: Name
    run: Name
    decision: Id
    person: Short
    ts: Millis
    reason: Text = ""
    v: int = 1


class Act(Struct, tag_field="record", tag="act", omit_defaults=True, frozen=True):
    """A person's own action; it supersedes an outstanding automatic one.

    A rollback whose checkpoint is empty goes to the newest healthy one.
    """

    VERSION: ClassVar[int] = 1

    project: Name
    run: Name
    effects: Annotated[list[Effect], Meta(min_length=1, max_length=8)]
    person: Short
    ts: Millis
    reason: Text = ""
    v: int = 1


class Prior(Struct, frozen=True):
    """Of ``num`` times on other runs, ``num_recovered`` ended well."""

    num: Annotated[float, Meta(ge=0.0)]
    num_recovered: Annotated[float, Meta(ge=0.0)]


class Policy(Struct, tag_field="record", tag="policy", omit_defaults=True, frozen=True):
    """Change how a run is treated, from the next record on; fields left out stay as they are.

    ``settings`` are numbers by dotted name, such as ``safety.cooldown_steps``. ``priors`` say what helped on other
    runs, by kind of incident and effect, such as ``loss_spike/rollback``; they take the place of those sent before.
    """

    VERSION: ClassVar[int] = 1

    project: Name
    run: Name
    person: Short
    ts: Millis
    preset: Short | None = None
    autonomy: Annotated[dict[EffectName, Autonomy], Meta(max_length=20)] = {}
    settings: Annotated[dict[Short, float], Meta(max_length=100)] = {}
    reason: Text = ""
    priors: Annotated[dict[Short, Prior], Meta(max_length=200)] = {}
    v: int = 1


Command = Approve | Reject | Act | Policy


class Hold(Struct, tag_field="record", tag="hold", omit_defaults=True, frozen=True):
    """Nothing is applied to the run until it is released."""

    VERSION: ClassVar[int] = 1

    project: Name
    run: Name
    person: Short
    ts: Millis
    reason: Text = ""
    v: int = 1


class Release(Struct, tag_field="record", tag="release", omit_defaults=True, frozen=True):
    VERSION: ClassVar[int] = 1

    project: Name
    run: Name
    person: Short
    ts: Millis
    reason: Text = ""
    v: int = 1


HoldState = Hold | Release
