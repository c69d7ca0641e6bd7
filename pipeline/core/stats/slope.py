"""The straight line through a stream of points."""

from __future__ import annotations

import math

from holter.pipeline.core.stats.moments import LARGEST
from holter.pipeline.core.stats.stored import StoredForm


class Slope:
    """Least squares slope in O(1) a point, by sums of products of distances from the means.

    Update and revert: Welford 1962 in two variables; merge: Pébay 2008 (Sandia report SAND2008-6212), equation 3.6.
    Points with a coordinate that is not finite, or beyond 1e150 in size, are left out.

    >>> line = Slope()
    >>> for step, loss in [(0, 4.0), (10, 3.0), (20, 2.0), (30, 9.0)]:
    ...     line.update(step, loss)
    >>> line.revert(30, 9.0)
    >>> line.slope(), line.at(40), line.sd_of_residuals()
    (-0.1, 0.0, 0.0)
    """

    __slots__ = ("_mean_x", "_mean_y", "_xx", "_xy", "_yy", "count")

    _form = StoredForm("slope", 1, "qddddd")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._mean_x = self._mean_y = 0.0
        self._xx = self._xy = self._yy = 0.0

    def update(self, x: float, y: float) -> None:
        if not (-LARGEST <= x <= LARGEST and -LARGEST <= y <= LARGEST):
            return
        self.count += 1
        delta_x, delta_y = x - self._mean_x, y - self._mean_y
        self._mean_x += delta_x / self.count
        self._mean_y += delta_y / self.count
        self._xx += delta_x * (x - self._mean_x)
        self._xy += delta_x * (y - self._mean_y)
        self._yy += delta_y * (y - self._mean_y)

    def revert(self, x: float, y: float) -> None:
        """Takes back a point that was given to ``update`` before, whenever that was."""
        if not (-LARGEST <= x <= LARGEST and -LARGEST <= y <= LARGEST):
            return
        if self.count <= 1:
            self._clear()
            return
        self.count -= 1
        delta_x, delta_y = x - self._mean_x, y - self._mean_y
        self._mean_x -= delta_x / self.count
        self._mean_y -= delta_y / self.count
        self._xx = max(0.0, self._xx - delta_x * (x - self._mean_x))
        self._xy -= delta_x * (y - self._mean_y)
        self._yy = max(0.0, self._yy - delta_y * (y - self._mean_y))
        if self.count == 1:  # what rounding left is no spread
            self._xx = self._xy = self._yy = 0.0

    def merge(self, other: Slope) -> None:
        """Takes in all that the other was given."""
        if not other.count:
            return
        total = self.count + other.count
        delta_x, delta_y = other._mean_x - self._mean_x, other._mean_y - self._mean_y
        share = other.count / total
        weight = self.count * share
        self._mean_x += delta_x * share
        self._mean_y += delta_y * share
        self._xx += other._xx + delta_x * delta_x * weight
        self._xy += other._xy + delta_x * delta_y * weight
        self._yy += other._yy + delta_y * delta_y * weight
        self.count = total

    def slope(self) -> float:
        """Change of y for one x; 0 where all x are one, NaN where there are no points."""
        if not self.count:
            return math.nan
        return self._xy / self._xx if self._xx else 0.0

    def at(self, x: float) -> float:
        """The line's y there; NaN where there are no points."""
        return self._mean_y + self.slope() * (x - self._mean_x)

    def sd_of_residuals(self) -> float:
        """Of the points around the line, two degrees of freedom spent; NaN of fewer than three points."""
        if self.count < 3:
            return math.nan
        left = self._yy - self.slope() * self._xy
        return math.sqrt(max(0.0, left) / (self.count - 2))

    def to_bytes(self) -> bytes:
        return self._form.pack(self.count, self._mean_x, self._mean_y, self._xx, self._xy, self._yy)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Slope:
        """Raises:
        StateVersionError: the bytes are of another version.
        """
        line = cls()
        line.count, line._mean_x, line._mean_y, line._xx, line._xy, line._yy = cls._form.unpack(raw)
        return line
