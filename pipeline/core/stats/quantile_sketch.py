"""Quantiles of any number of values in bounded memory."""

from __future__ import annotations

import math
import struct

from ddsketch.ddsketch import BaseDDSketch
from ddsketch.mapping import LogarithmicMapping
from ddsketch.store import CollapsingLowestDenseStore

from holter.pipeline.core.stats.extremes import Extremes
from holter.pipeline.core.stats.stored import StoredForm

MAX_BINS = 2048
_TINY, _HUGE = 1e-300, 1e300


class QuantileSketch:
    """Counts in bins of equal relative width (DDSketch: Masson, Rim and Lee 2019, VLDB 12:12), of either sign.

    A quantile is right to ``accuracy`` of its value as long as the values of its sign span less than a factor of
    exp(2 accuracy x 2048), at 1 % some 18 decades; beyond that the bins nearest to zero become one. Merging adds
    counts, so a sketch does not depend on how its values were parted. Values that are not finite, or beyond 1e300, are
    left out; what is nearer to zero than 1e-300 is zero.

    >>> sketch, other = QuantileSketch(), QuantileSketch()
    >>> for value in range(1, 51):
    ...     sketch.update(float(value))
    ...     other.update(value + 50.0)
    >>> sketch.update(float("nan"))
    >>> sketch.merge(other)
    >>> sketch.count, sketch.quantile(0.0), round(sketch.quantile(0.5)), sketch.quantile(1.0)
    (100, 1.0, 50, 100.0)
    """

    __slots__ = ("_accuracy", "_extremes", "_negative", "_positive", "_sketch")

    _form = StoredForm("quantile sketch", 1, "dqdd")

    def __init__(self, accuracy: float = 0.01) -> None:
        no_values = Extremes()
        self._build(accuracy, CollapsingLowestDenseStore(MAX_BINS), CollapsingLowestDenseStore(MAX_BINS), 0, no_values)

    def _build(
        self,
        accuracy: float,
        positive: CollapsingLowestDenseStore,
        negative: CollapsingLowestDenseStore,
        num_zeros: int,
        extremes: Extremes,
    ) -> None:
        self._accuracy = accuracy
        self._positive, self._negative = positive, negative
        self._sketch = BaseDDSketch(LogarithmicMapping(accuracy), positive, negative, float(num_zeros))
        self._extremes = extremes

    @property
    def count(self) -> int:
        return int(self._sketch.count)

    def update(self, value: float) -> None:
        if not -_HUGE <= value <= _HUGE:
            return
        self._sketch.add(value if not -_TINY < value < _TINY else 0.0)
        self._extremes.update(value)

    def merge(self, other: QuantileSketch) -> None:
        """Takes in all that the other was given.

        Raises:
            ValueError: the two differ in accuracy.
        """
        self._sketch.merge(other._sketch)
        self._extremes.merge(other._extremes)

    def quantile(self, share: float) -> float:
        """The value that a ``share`` in [0, 1] of the values does not exceed; NaN where there are none."""
        found = self._sketch.get_quantile_value(share)
        if found is None:
            return math.nan
        if share in (0.0, 1.0):
            return self._extremes.greatest if share else self._extremes.least
        return min(self._extremes.greatest, max(self._extremes.least, float(found)))

    def to_bytes(self) -> bytes:
        num_zeros = self.count - int(self._positive.count) - int(self._negative.count)
        head = self._form.pack(self._accuracy, num_zeros, self._extremes.least, self._extremes.greatest)
        return head + _store_bytes(self._positive) + _store_bytes(self._negative)

    @classmethod
    def from_bytes(cls, raw: bytes) -> QuantileSketch:
        """Raises:
        StateVersionError: the bytes are of another version.
        """
        accuracy, num_zeros, least, greatest = cls._form.unpack(raw)
        extremes = Extremes()
        extremes.least, extremes.greatest = least, greatest
        positive, end = _read_store(cls._form, raw, cls._form.num_bytes)
        negative, _ = _read_store(cls._form, raw, end)
        sketch = cls.__new__(cls)
        sketch._build(accuracy, positive, negative, num_zeros, extremes)
        return sketch


_STORE = "qI?"  # key of the first bin, number of bins, whether lower ones are in it


def _store_bytes(store: CollapsingLowestDenseStore) -> bytes:
    if not store.count:
        return struct.pack(f"<{_STORE}", 0, 0, False)
    start = store.min_key - store.offset
    bins = [int(count) for count in store.bins[start : store.max_key - store.offset + 1]]
    return struct.pack(f"<{_STORE}{len(bins)}q", store.min_key, len(bins), store.is_collapsed, *bins)


def _read_store(form: StoredForm, raw: bytes, at: int) -> tuple[CollapsingLowestDenseStore, int]:
    """The store, and where its bytes end."""
    min_key, num_bins, is_collapsed = form.unpack_more(raw, _STORE, at)
    start = at + struct.calcsize(f"<{_STORE}")
    store = CollapsingLowestDenseStore(MAX_BINS)
    for number, count in enumerate(form.unpack_more(raw, f"{num_bins}q", start)):
        store.add(min_key + number, float(count))
    store.is_collapsed = is_collapsed
    return store, start + 8 * num_bins
