"""What ranks say to each other about one action: which it is, and whether each of them is able to apply it."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from holter.producers.latch import Latched
from holter.producers.torch.ranks import Ranks
from holter.schemas import codec, encode
from holter.schemas.control import Action

MEETING_PATIENCE = 12.0
"""At a start ranks come one after the other."""
VOTE_PATIENCE = 60.0
"""A vote waits for ranks that read a checkpoint."""


class Ballot(Struct, frozen=True):
    """No objection without a reason. ``damaged`` names a checkpoint to set aside; what the lead chose counts."""

    reason: str = ""
    damaged: str = ""
    groups: tuple[int, ...] | None = None


class Result(Struct, frozen=True):
    objection: Ballot | None
    lead: Ballot


class _Announced(Struct, frozen=True):
    action: bytes
    digest: str
    latched_ms: float


_NO_ANSWER: Final = Ballot("the ranks of this job do not agree any more")


def vote(ranks: Ranks, ballot: Ballot) -> Result:
    """The first objection of any rank, the same on all of them."""
    said = ranks.gather(msgspec.msgpack.encode(ballot), VOTE_PATIENCE)
    if said is None:
        return Result(_NO_ANSWER, _NO_ANSWER)
    ballots = [msgspec.msgpack.decode(each, type=Ballot) for each in said]
    return Result(next((each for each in ballots if each.reason), None), ballots[0])


def shared_action(ranks: Ranks, own: Latched | None) -> Latched | None:
    """The lead's action, on every rank; None where it has none or not all of them heard of it."""
    if ranks.num_ranks == 1:
        return own
    content = b"" if own is None else msgspec.msgpack.encode(_Announced(encode(own.action), own.digest, own.latched_ms))
    said = ranks.gather(content)
    if not said or not said[0]:
        return None
    announced = msgspec.msgpack.decode(said[0], type=_Announced)
    action = codec.control.decode(announced.action)
    return Latched(action, announced.digest, announced.latched_ms) if isinstance(action, Action) else None
