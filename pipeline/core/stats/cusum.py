"""Small shifts that last: the cumulative sum chart."""

from __future__ import annotations

from typing import Literal

from holter.pipeline.core.stats.stored import StoredForm

Direction = Literal["", "up", "down"]


class Cusum:
    """Two one-sided sums of standardised values (Page 1954), with the step at which the present one left zero.

    up = max(0, up + min(z, cap) - slack), alarm where up > limit; down likewise of -z. The cap keeps a single
    wild value from raising an alarm. The first step after the sum was last zero is the maximum likelihood estimate
    of the onset of a shift (Hinkley 1971, for slack at half its size). With slack .5 and limit 5 normal noise gives
    an alarm in some 465 values, a shift of one standard deviation after some 10.4 (Montgomery, Introduction to
    Statistical Quality Control, table 9.4).

    A sum depends on the order of all values since it left zero: there is no ``merge``, and what has to be taken back
    is taken back by restoring the bytes of before. Values that are not finite are left out.

    >>> chart = Cusum(slack=0.5, limit=5.0)
    >>> for step, z in enumerate([0.1, -0.2, 0.3, 2.0, 2.1, 1.9, 2.2]):
    ...     chart.update(step, z)
    >>> chart.alarm(), chart.onset_step("up"), round(chart.up, 2)
    ('up', 3, 6.2)
    """

    __slots__ = ("_cap", "_limit", "_slack", "down", "down_onset", "up", "up_onset")

    _form = StoredForm("cusum", 1, "dddddqq")

    def __init__(self, slack: float = 0.75, limit: float = 12.0, cap: float = 4.0) -> None:
        self._slack = slack
        self._limit = limit
        self._cap = cap
        self.reset()

    def reset(self) -> None:
        """Both sums begin again at zero."""
        self.up = self.down = 0.0
        self.up_onset = self.down_onset = -1

    def update(self, step: int, z: float) -> None:
        """Takes one standardised value; ``step`` is what an onset is named by."""
        if z - z != 0.0:
            return
        cap = self._cap
        if z > cap:
            z = cap
        elif z < -cap:
            z = -cap
        up, down = self.up + z - self._slack, self.down - z - self._slack
        if up <= 0.0:
            self.up = 0.0
        else:
            if self.up == 0.0:
                self.up_onset = step
            self.up = up
        if down <= 0.0:
            self.down = 0.0
        else:
            if self.down == 0.0:
                self.down_onset = step
            self.down = down

    def alarm(self) -> Direction:
        """Which sum is over the limit; the greater one where both are, empty where none is."""
        if self.up > self._limit and self.up >= self.down:
            return "up"
        return "down" if self.down > self._limit else ""

    def onset_step(self, direction: Direction) -> int | None:
        """Where the present sum of that direction left zero; None while it is zero."""
        if direction == "up" and self.up > 0.0:
            return self.up_onset
        return self.down_onset if direction == "down" and self.down > 0.0 else None

    def to_bytes(self) -> bytes:
        return self._form.pack(
            self._slack, self._limit, self._cap, self.up, self.down, self.up_onset, self.down_onset
        )  # fmt: skip

    @classmethod
    def from_bytes(cls, raw: bytes) -> Cusum:
        """Raises:
        StateVersionError: the bytes are of another version.
        """
        slack, limit, cap, *rest = cls._form.unpack(raw)
        chart = cls(slack, limit, cap)
        chart.up, chart.down, chart.up_onset, chart.down_onset = rest
        return chart
