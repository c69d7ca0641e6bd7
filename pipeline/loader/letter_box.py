"""Dead letters to their topic, acknowledged before the loader goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holter.pipeline.bus import BusError, Publisher
from holter.schemas import encode
from holter.schemas.dead_letter import DeadLetter
from holter.schemas.topics import DLQ

FLUSH_SECONDS = 10.0


class LetterBox:
    """Makes its publisher when the first letter comes, and anew after a failure, which a publisher may not survive."""

    def __init__(self, make_publisher: Callable[[], Publisher]) -> None:
        self._make_publisher = make_publisher
        self._publisher: Publisher | None = None

    def send(self, letters: Sequence[DeadLetter]) -> None:
        """Raises:
        BusError: not all were acknowledged; always retriable, as a letter sent twice is one row in the store.
        """
        if not letters:
            return
        try:
            self._publisher = self._publisher or self._make_publisher()
            for letter in letters:
                self._publisher.publish(DLQ, f"{letter.topic}/{letter.partition}".encode(), encode(letter))
            if not self._publisher.flush(FLUSH_SECONDS):
                raise BusError("the dead letters were not acknowledged", retriable=True)
        except BusError as error:
            self.close()
            raise BusError(str(error), retriable=True) from None

    def close(self) -> None:
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.close(FLUSH_SECONDS)
