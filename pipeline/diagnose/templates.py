"""Templates of log lines (Drain), and which of them a job that succeeded has too (L4's cross-job filter)."""

from __future__ import annotations

from typing import Any

from holter.pipeline.diagnose.errors import MissingLibrary
from holter.pipeline.diagnose.log_line import WILDCARD

SIMILARITY = 0.4
DEPTH = 4
MAX_TEMPLATES = 50_000
_MAX_REMEMBERED = 100_000


class Templates:
    """Clusters of masked messages. An identity stays what it is while the template becomes more general."""

    def __init__(self) -> None:
        self._drain = _new_drain()

    def learn(self, message: str) -> int:
        cluster, _ = self._drain.add_log_message(message)
        return int(cluster.cluster_id)

    def covering(self, message: str) -> int | None:
        """The template that says this message with its wildcards filled."""
        cluster = self._drain.match(message, full_search_strategy="fallback")
        return None if cluster is None else int(cluster.cluster_id)

    def text(self, identity: int) -> str:
        return str(self._drain.id_to_cluster[identity].get_template())

    def __len__(self) -> int:
        return len(self._drain.id_to_cluster)


class Vocabulary:
    """Identities of messages: negative for what a job that succeeded said too, positive for what only the failed one.

    What comparable jobs said is learned first. Then each new message is looked for among their templates, whole, and
    otherwise becomes or joins one of the failed job's own: so nothing that they said is ever taken for a symptom,
    and a line that is merely similar to one of theirs can be one.
    """

    def __init__(self) -> None:
        self.known, self.own = Templates(), Templates()
        self._remembered: dict[str, int] = {}

    def learn_known(self, message: str) -> None:
        if message not in self._remembered:
            self._remember(message, -self.known.learn(message) if len(self.known) < MAX_TEMPLATES else 0)

    def identity(self, message: str) -> int:
        """0 where there are too many templates already, and it is none of them."""
        found = self._remembered.get(message)
        return self._remember(message, self._look_up(message)) if found is None else found

    def is_new(self, message: str) -> bool:
        """Whether it was not met before, or so long ago that it is forgotten."""
        return message not in self._remembered

    def _look_up(self, message: str) -> int:
        known = self.known.covering(message)
        if known is not None:
            return -known
        return self.own.learn(message) if len(self.own) < MAX_TEMPLATES else self.own.covering(message) or 0

    def _remember(self, message: str, identity: int) -> int:
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[message] = identity
        return identity


def _new_drain() -> Any:
    try:
        from drain3.drain import Drain
    except ImportError:
        raise MissingLibrary("drain3") from None
    return Drain(depth=DEPTH, sim_th=SIMILARITY, param_str=WILDCARD)
