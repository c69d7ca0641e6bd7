"""One run being recorded: every message is judged, spooled together with what was said of it, and handed on.

The spool is the journal of the stages. A recorder that is started again over the same folder plays what came after
the kept state, at the times it came then, and so goes on exactly where the last one was killed. What was said then
is in the spool already and is not said again.
"""

from __future__ import annotations

import logging

from holter.pipeline.bus import Message
from holter.pipeline.core.memory_state import MemoryState
from holter.pipeline.core.run_operator import Deployment
from holter.pipeline.local.driver import Judge
from holter.pipeline.local.exchange import Exchange, Kept
from holter.pipeline.local.kept_state import KeptState, read_state, write_state
from holter.pipeline.local.run_folder import RunFolder
from holter.pipeline.local.spool import Entry, Said, Spool, SpoolReader
from holter.schemas import InvalidRecord
from holter.schemas.signed import open_unverified
from holter.schemas.topics import CONTROL, SIGNALS, TELEMETRY, Topic

STATE_EVERY_ENTRIES = 1024
_HANDED_ON = frozenset({CONTROL.name, SIGNALS.name})
"""Of what is said of a run, what its trainer may read."""

_logger = logging.getLogger(__name__)


class Session:
    """Goes on where the spool ends.

    Args:
        spool: locked, not yet read.
        deployment: None records only.
    """

    def __init__(self, folder: RunFolder, spool: Spool, exchange: Exchange, deployment: Deployment | None) -> None:
        self._folder = folder
        self._spool = spool
        self._exchange = exchange
        self._deployment = deployment
        self._judge: Judge | None = None
        self._said: list[Said] = []
        self._num_since_state = 0
        self._recover()

    def take(self, topic: str, key: bytes, value: bytes, now: int) -> None:
        """Raises OSError where the spool cannot be written: the session is then over."""
        said = self._judged(Message(topic, 0, self._spool.end, now, key, value), now)
        try:
            self._spool.append(Entry(now, topic, key, value, said))
        except OSError:
            self._judge = None  # it knows of a message that the spool has not
            raise
        self._exchange.put(topic, key, value, now)
        self._hand_on(key, said, now)
        self._num_since_state += 1
        if self._num_since_state >= STATE_EVERY_ENTRIES:
            self.keep_state()

    def keep_state(self) -> None:
        """Spares the next recorder to play the whole spool again."""
        self._num_since_state = 0
        if self._judge is None:
            return
        state = KeptState(position=self._spool.end, snapshots=self._judge.snapshots(), kept=self._exchange.kept())
        try:
            write_state(self._folder.state, state)
        except OSError as error:
            _logger.warning("the state cannot be kept, the next start takes longer: %s", error)

    def _recover(self) -> None:
        state = read_state(self._folder.state, self._folder.spool.stat().st_size)
        if self._deployment is not None:
            judge = self._restored(self._deployment, state)
            if judge is None:
                state = KeptState()
                judge = Judge(self._deployment, self._note, {})
            self._judge = judge
        self._exchange.restore(message for message in state.kept if self._may_hand_on(message))
        reader = SpoolReader(self._folder.spool, state.position)
        for entry in reader:
            self._replay(entry)
        num_cut = self._spool.cut_torn_tail(reader.end)
        if num_cut:
            _logger.warning("the last %d bytes of %s are torn; they were cut off", num_cut, self._folder.spool)
        if reader.num_unreadable:
            _logger.warning("%d entries of %s cannot be read", reader.num_unreadable, self._folder.spool)

    def _restored(self, deployment: Deployment, state: KeptState) -> Judge | None:
        """None where the state is of another release."""
        judge = Judge(deployment, self._note, {key: MemoryState(raw) for key, raw in state.snapshots.items()})
        try:
            for key in state.snapshots:
                judge.load(key)
        except Exception as error:  # whatever it is, playing the whole spool gives the state as well
            _logger.warning("the kept state is not used: %s", error)
            return None
        return judge

    def _replay(self, entry: Entry) -> None:
        self._judged(Message(entry.topic, 0, 0, entry.ts, entry.key, entry.value), entry.ts)
        self._hand_on(entry.key, [said for said in entry.said if self._is_own(said.value)], entry.ts)

    def _judged(self, message: Message, now: int) -> list[Said]:
        self._said = []
        if self._judge is not None and message.topic == TELEMETRY.name:
            try:
                self._judge.fire_timers(now)
                self._judge.handle(message, now)
            except Exception:  # a defect of the stages must not cost the recording
                _logger.exception("Holter judges no more; the run is still recorded")
                self._judge = None
        return self._said

    def _note(self, topic: Topic, _: bytes, value: bytes) -> None:
        self._said.append(Said(topic.name, value))

    def _hand_on(self, key: bytes, said: list[Said], now: int) -> None:
        for each in said:
            if each.topic in _HANDED_ON:
                self._exchange.put(each.topic, key, each.value, now)

    def _may_hand_on(self, message: Kept) -> bool:
        return message[0] != CONTROL.name or self._is_own(message[5] or b"")

    def _is_own(self, value: bytes) -> bool:
        """Whether it is signed with this session's key: an earlier session's actions are over, and would be refused."""
        signer = None if self._deployment is None else self._deployment.signer
        try:
            return signer is not None and signer.verifies(open_unverified(value))
        except InvalidRecord:
            return False
