"""The high values of late that no detector spoke of: what is no higher than they were is no news either."""

from __future__ import annotations

NEWS_RECORDS = 64
_COMPANY_RECORDS = 3
_MAX_KEPT = 24


class PassedHighs:
    """(record number, value), newest last; each is higher than all after it, but for the newest few.

    >>> passed = PassedHighs()
    >>> passed.note(10, 5.0)
    >>> passed.is_news(12, 4.0), passed.is_news(20, 4.0), passed.is_news(20, 6.0), passed.is_news(90, 4.0)
    (True, False, True, True)
    """

    __slots__ = ("kept",)

    def __init__(self, kept: list[tuple[int, float]] | None = None) -> None:
        self.kept = kept or []

    def note(self, count: int, value: float) -> None:
        """A high value has led to nothing, at least not by itself."""
        kept = [
            (at, high)
            for at, high in self.kept
            if at >= count - _COMPANY_RECORDS or (high > value and at > count - NEWS_RECORDS)
        ]
        self.kept = [*kept, (count, value)][-_MAX_KEPT:]

    def is_news(self, count: int, value: float, same_excursion: int = _COMPANY_RECORDS) -> bool:
        """Whether a value is higher than those of late. So many of the last may belong to the same excursion."""
        return all(high < value for at, high in self.kept if count - NEWS_RECORDS < at < count - same_excursion)
