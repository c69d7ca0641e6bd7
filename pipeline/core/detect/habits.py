"""What a run gets over again and again it does by itself: a rule that spoke of it asks for more the next time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holter.pipeline.core.detect.evidence import Evidence


@dataclass(frozen=True)
class HabitSettings:
    """So many incidents of one rule are none too many; each further one multiplies what the next has to exceed.

    Single points and pairs are how real trouble comes, also several times in a run; what adds up slowly and comes
    back is a season of the data, of the schedule or of an opponent.
    """

    growth: float = 2.0
    most_doublings: float = 6.0
    singles: float = 2.0
    norm_singles: float = 1.0
    pairs: float = 2.0
    others: float = 0.5
    fading: float = 0.98
    """Of what is remembered, at each further incident."""


class Habits:
    """Counts, by rule, the incidents that it opened. Another run in the same log begins with the habits of the last.

    >>> habits = Habits(HabitSettings())
    >>> for _ in range(3):
    ...     habits.note(["loss drift"])
    >>> habits.bar("loss single"), round(habits.bar("loss drift"), 1)
    (1.0, 5.4)
    """

    __slots__ = ("_settings", "counts")

    def __init__(self, settings: HabitSettings, counts: dict[str, float] | None = None) -> None:
        self._settings = settings
        self.counts = dict(counts or {})

    def note(self, rules: Iterable[str]) -> None:
        """An incident has opened; these rules spoke of it."""
        counts = {rule: self._settings.fading * count for rule, count in self.counts.items()}
        self.counts = {**counts, **{rule: counts.get(rule, 0.0) + 1.0 for rule in rules}}

    def exceeded(self, evidence: list[Evidence]) -> list[Evidence]:
        """The evidence that is more than a habit."""
        return [item for item in evidence if item.excess >= self.bar(item.rule)] if self.counts else evidence

    def bar(self, rule: str) -> float:
        """How many times over a rule's own limit evidence has to be."""
        settings = self._settings
        beyond = self.counts.get(rule, 0.0) - self._free(rule)
        return float(settings.growth ** min(settings.most_doublings, max(0.0, beyond)))

    def _free(self, rule: str) -> float:
        settings = self._settings
        if rule.endswith("single"):
            return settings.singles if rule.startswith("loss") else settings.norm_singles
        return settings.pairs if rule.endswith("pair") else settings.others
