"""Agreement of the ranks of a job over a gloo group of their own and the job's key-value store.

At boundary s every rank begins an asynchronous all-reduce (MAX) of a few integers and hears its result at boundary
s + 1, so that no step waits: ranks that share gradients have all begun it before the step between. What one of them
has to say, all of them hear at the same boundary. Short steps share a round: the lead says in each how many boundaries
are to lie between two, so that they are half a second apart, and at most eight steps.

The rare rest (which action, whether everyone is able to, whether everyone did) goes through the store: each rank puts
down what it says, the lead reads all of it and puts down the whole. Whether it holds is the first entry under one key,
so that all of them agree, whoever is late.

A rank that waited in vain says so, goes on training and never waits again; the others hear of it and do the same.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from torch import distributed

from holter.producers.torch.ballots import MEETING_PATIENCE
from holter.producers.torch.ranks import Apart, Ranks, Word
from holter.producers.torch.rounds import LEFT, NoAgreement, Round, Rounds

_YES, _NO = "yes", "no"
_LOOK_SECONDS = 0.002
ROUND_SECONDS = 0.5
"""So far apart are rounds of steps that are shorter."""
MAX_SPACING = 8
_num_made = itertools.count()


class Agreement(Ranks):
    """Made by :func:`join`. Nothing here raises: what fails or comes too late disarms, with one line.

    Ranks trust what they hear from each other as they trust the gradients they exchange; only the lead verifies who
    signed an action. Calls come from the training thread.
    """

    def __init__(
        self, rank: int, num_ranks: int, store: Any, patience_seconds: float, disarmed: Callable[[str], None]
    ) -> None:
        self.rank, self.num_ranks = rank, num_ranks
        self.is_armed = True
        self._store = store
        self._patience_seconds = patience_seconds
        self._disarmed = disarmed
        self._rounds: Rounds | None = None
        self._round: Round | None = None
        self._heard = Word()
        self._num_boundaries = 0
        """Since the last round was begun."""
        self._begun_at = time.monotonic()
        self._num_gathered = 0

    def connect(self) -> None:
        """Makes the group; a collective call. Disarms where any rank fails."""
        failure = b""
        try:
            self._rounds = Rounds()
        except Exception as error:  # whatever it is, training has its own groups and goes on
            failure = repr(error)[:500].encode()
        said = self.gather(failure, MEETING_PATIENCE)
        if said is not None and any(said):
            self._disarm(f"a group of their own could not be made: {next(filter(None, said)).decode()}")

    def poll(self, say: Callable[[], Word], is_awaited: bool = False) -> Word:
        if not self.is_armed:
            return Word()
        self._num_boundaries += 1
        try:
            heard = self._hear()
            if is_awaited or self._num_boundaries >= heard.spacing:
                self._begin(say(), heard)
        except NoAgreement as error:
            self._disarm(str(error))
            return Word()
        except Exception:  # the backend's text is long and speaks of sockets
            self._disarm("a rank cannot be reached any more")
            return Word()
        return heard

    def gather(self, content: bytes, patience: float = 1.0) -> list[bytes] | None:
        if not self.is_armed:
            return None
        try:
            return self._gather(content, patience * self._patience_seconds)
        except NoAgreement as error:
            self._disarm(str(error))
        except Exception as error:
            self._disarm(f"the job's store cannot be reached any more: {error}"[:300])
        return None

    def leave(self) -> None:
        if self.is_armed:
            self.is_armed = False
            self._say_farewell()

    def _hear(self) -> Word:
        if self._round is None:
            return self._heard
        heard, self._round = self._round.heard(self._patience_seconds), None
        self._heard = heard._replace(wants_action=0)
        return heard

    def _begin(self, said: Word, heard: Word) -> None:
        wants_action = 0 if heard.wants_action else said.wants_action  # what was heard is dealt with at this boundary
        assert self._rounds is not None
        self._round = self._rounds.begin(said._replace(wants_action=wants_action, spacing=self._spacing()))
        self._num_boundaries = 0

    def _spacing(self) -> int:
        """The lead's alone counts: clocks differ."""
        begun_at, self._begun_at = self._begun_at, time.monotonic()
        step_seconds = (self._begun_at - begun_at) / self._num_boundaries
        return min(MAX_SPACING, int(ROUND_SECONDS / max(step_seconds, 1e-6))) if self.is_lead else 0

    def _gather(self, content: bytes, patience_seconds: float) -> list[bytes]:
        key = str(self._num_gathered)
        self._num_gathered += 1
        self._store.set(f"{key}/{self.rank}", content)
        entered = self._watch()
        if self.is_lead:
            verdict = self._decide(key, patience_seconds, entered)
            self._watch()
        else:
            watched = entered + self._watch()
            self._is_there([f"{key}/verdict"], 2 * patience_seconds + self._patience_seconds, watched)
            verdict = self._settle(key, _NO)
        if verdict != _YES:
            raise NoAgreement("not every rank answered in time")
        return msgspec.msgpack.decode(self._store.get(f"{key}/said"), type=list[bytes])

    def _watch(self) -> list[Round]:
        """A round beside the store, which breaks when a rank dies: all ranks begin it when they say what they have to
        say, and a second one, the lead when it has decided, the others at once."""
        return [] if self._rounds is None else [self._rounds.begin(Word())]

    def _decide(self, key: str, patience_seconds: float, watched: Sequence[Round]) -> str:
        names = [f"{key}/{rank}" for rank in range(self.num_ranks)]
        if not self._is_there(names, patience_seconds, watched):
            return self._settle(key, _NO)
        self._store.set(f"{key}/said", msgspec.msgpack.encode([self._store.get(name) for name in names]))
        return self._settle(key, _YES)

    def _settle(self, key: str, proposal: str) -> str:
        """What holds for everybody: the first proposal, whoever made it."""
        settled: bytes = self._store.compare_set(f"{key}/verdict", "", proposal)
        return settled.decode()

    def _is_there(self, names: list[str], seconds: float, watched: Sequence[Round]) -> bool:
        """Looks again and again: a waiting store would hold up what else uses it, and writes warnings of its own."""
        deadline = time.monotonic() + seconds
        while not self._store.check(names):
            if time.monotonic() > deadline or self._store.check(["left"]) or any(each.has_failed for each in watched):
                return bool(self._store.check(names))
            time.sleep(_LOOK_SECONDS)
        return True

    def _disarm(self, why: str) -> None:
        self.is_armed = False
        self._disarmed(why)
        self._say_farewell()

    def _say_farewell(self) -> None:
        """So that the others need not wait in vain too."""
        try:
            self._store.set("left", str(self.rank))
            if self._rounds is not None:
                self._rounds.begin(Word(LEFT))
        except Exception:  # they are gone themselves
            return


def join(
    name: str,
    announced_rank: int,
    num_ranks: int,
    settings: bytes,
    patience_seconds: float,
    disarmed: Callable[[str], None],
) -> Ranks:
    """Meets the other ranks of the default process group, all of which have to come; :class:`Apart` where they do not.

    ``settings`` must be the same on every rank. ``disarmed`` is told why nothing is agreed, now or later.
    """
    rank = distributed.get_rank()
    try:
        store = _own_store(f"holter/{name}/{next(_num_made)}")
    except Exception as error:  # torch offers it without a promise
        disarmed(f"the job's store cannot be used: {error!r}"[:500])
        return Apart(announced_rank, num_ranks)
    agreement = Agreement(rank, distributed.get_world_size(), store, patience_seconds, disarmed)
    said = agreement.gather(msgspec.msgpack.encode((announced_rank, num_ranks, settings)), MEETING_PATIENCE)
    problem = None if said is None else _problem(said)
    if problem is not None:
        agreement._disarm(problem)
    if agreement.is_armed:
        agreement.connect()
    return agreement if agreement.is_armed else Apart(announced_rank, num_ranks)


def _problem(said: list[bytes]) -> str | None:
    decoded = [msgspec.msgpack.decode(each, type=tuple[int, int, bytes]) for each in said]
    for rank, (announced, size, settings) in enumerate(decoded):
        if (announced, size) != (rank, len(decoded)):
            return f"rank {rank} of {len(decoded)} was announced as rank {announced} of {size} (RANK, WORLD_SIZE)"
        if settings != decoded[0][2]:
            return f"ranks 0 and {rank} have different settings"
    return None


def _own_store(prefix: str) -> Any:
    """The job's store over a connection of its own, so that nobody waits for what is asked here."""
    store = distributed.distributed_c10d._get_default_store()
    return distributed.distributed_c10d.PrefixStore(prefix, store.clone() if hasattr(store, "clone") else store)
