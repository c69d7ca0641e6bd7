"""What of a run's telemetry is new and of the newest attempt. Everything later may rely on that."""

from __future__ import annotations

from msgspec import Struct

from holter.schemas.telemetry import Ack, MetricBatch, RunEvent

MAX_GAPS = 16


class SeqTracker(Struct):
    """Which ``seq`` of one (attempt, rank) were seen: all below ``next`` but for at most 16 intervals ``gaps``.

    With more gaps than that the oldest is given up: its records, should they come, count as duplicates.
    """

    session: str
    next: int = 0
    gaps: list[tuple[int, int]] = []

    def is_new(self, seq: int) -> bool:
        """Takes note of a seq; False for one that was seen before.

        >>> tracker = SeqTracker("s")
        >>> [tracker.is_new(seq) for seq in (0, 1, 4, 4, 2, 3, 3)]
        [True, True, True, False, True, True, False]
        """
        if seq == self.next:
            self.next = seq + 1
            return True
        if seq > self.next:
            self.gaps.append((self.next, seq - 1))
            del self.gaps[:-MAX_GAPS]
            self.next = seq + 1
            return True
        return self._fill(seq)

    def _fill(self, seq: int) -> bool:
        for index, (low, high) in enumerate(self.gaps):
            if low <= seq <= high:
                parts = [(low, seq - 1), (seq + 1, high)]
                self.gaps[index : index + 1] = [(a, b) for a, b in parts if a <= b]
                del self.gaps[:-MAX_GAPS]
                return True
        return False

    @property
    def num_missing(self) -> int:
        return sum(high - low + 1 for low, high in self.gaps)


class IntakeState(Struct):
    attempt: int = -1
    trackers: dict[str, SeqTracker] = {}
    """By rank, of the newest attempt."""
    judged_rank: int = 0
    last_step: int = -1
    """The last step of the judged rank in this attempt."""
    has_conflict: bool = False
    """Whether a second process speaks for a rank of this attempt."""
    num_duplicates: int = 0
    num_stale: int = 0


class Intake:
    """Drops duplicates, fences off older attempts and second processes."""

    def __init__(self, state: IntakeState | None = None) -> None:
        self.state = state or IntakeState()
        self._trackers: dict[int, SeqTracker] = {int(rank): kept for rank, kept in self.state.trackers.items()}

    def accept(self, record: MetricBatch | RunEvent | Ack) -> bool:
        """Whether the record is new, of the newest attempt and of its own process; a later attempt becomes newest."""
        state = self.state
        attempt, rank = record.attempt, record.rank
        if attempt != state.attempt:
            if attempt < state.attempt:
                state.num_stale += 1
                return False
            self._begin(attempt)
        tracker = self._trackers.get(rank)
        if tracker is None:
            tracker = self._track(rank, record.session)
        elif tracker.session != record.session:
            state.has_conflict = True
            return False
        if tracker.is_new(record.seq):
            return True
        state.num_duplicates += 1
        return False

    def advances(self, rank: int, step: int) -> bool:
        """Whether this step is to be judged: of the judged rank and after the last one judged."""
        state = self.state
        if rank != state.judged_rank or step <= state.last_step:
            return False
        state.last_step = step
        return True

    def _begin(self, attempt: int) -> None:
        state = self.state
        state.attempt = attempt
        state.last_step = -1
        state.judged_rank = 0
        state.has_conflict = False
        state.trackers.clear()
        self._trackers.clear()

    def _track(self, rank: int, session: str) -> SeqTracker:
        tracker = SeqTracker(session)
        self._trackers[rank] = self.state.trackers[str(rank)] = tracker
        if rank == -1 and self.state.judged_rank != -1:
            self.state.judged_rank = -1  # a value over all ranks says more than rank 0's share
        return tracker
