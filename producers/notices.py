"""Log lines that a training log can bear: one of each kind, however often the thing happens."""

from __future__ import annotations

import logging

logger = logging.getLogger("holter")


class Notices:
    """Counts every occurrence of a kind and logs its first, and its first again after :meth:`clear`."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._said: set[str] = set()

    def warn(self, kind: str, text: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind not in self._said:
            self._said.add(kind)
            logger.warning("%s", text)

    def clear(self, kind: str, text: str) -> None:
        """The trouble is over: says so if it had been reported."""
        if kind in self._said:
            self._said.discard(kind)
            logger.info("%s", text)
