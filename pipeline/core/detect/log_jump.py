"""A level that multiplies by four, told from loud noise: a likelihood-ratio CUSUM on whitened logarithms.

The logarithm of a positive metric is taken as an autoregression of first order around a slow mean. Page's CUSUM
(1954) sums the log likelihood ratio of a Student-t whose mean is shifted by ln 4 against one that is not: a jump shows
whole in its first innovation, and by 1 − φ of it in the later ones. What the run has shown before sets both thresholds.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass

from msgspec import Struct, structs

LN_4 = math.log(4.0)
_TAILS = ((0.005, 40.0), (0.012, 12.0), (0.02, 6.0))
"""Degrees of freedom by the share of innovations beyond three scales; 3 above the last one."""

_THREE_OF_FOUR = (7, 11, 13, 14, 15)


@dataclass(frozen=True)
class LogJumpSettings:
    min_values: int = 30
    mean_rate: float = 0.015
    scale_rate: float = 0.008
    tail_rate: float = 0.004
    least_correlation: float = 0.2
    """Less than this is what values without any show by chance; whitening by it would only add noise."""
    limit: float = 7.5
    """Of the log likelihood ratio; about one false signal in 10,000 values of plain noise."""
    young: float = 400.0
    """Divided by 10 + the number of values: added to the limit."""
    margin: float = 1.25
    """Times the second largest block maximum of the CUSUM over the last 1,000, plus ``surplus``."""
    surplus: float = 0.8
    range_margin: float = 0.25
    """Of the range that the logarithm kept to over the last 1,000: beyond it, three of four values are enough."""
    young_range: float = 8.0
    """Divided by the number of blocks of 16: added to ``range_margin``."""


class LogJumpState(Struct):
    count: int = 0
    mean: float = 0.0
    spread: float = 0.0
    """Mean absolute innovation."""
    tail: float = 0.02
    variance: float = 1e-9
    covariance: float = 0.0
    previous: float = 0.0
    cusum: float = 0.0
    limit: float = math.inf
    block_cusum: float = 0.0
    block_top: float = -math.inf
    block_bottom: float = math.inf
    range_limit: float = math.inf
    outside: int = 0
    """Bits: which of the last four values were above the range."""
    cusums: bytes = b""
    tops: bytes = b""
    bottoms: bytes = b""
    """Of the newest blocks, as raw little-endian float32; here only while stored."""


class LogJump:
    """Feed positive finite values only.

    >>> jump = LogJump()
    >>> calm = [1.0 + 0.1 * math.sin(1.7 * i * i) for i in range(400)]
    >>> max(map(jump.update, calm)) > 1.0, max(map(jump.update, [4.0 * value for value in calm[:6]])) > 1.0
    (False, True)
    """

    def __init__(self, settings: LogJumpSettings | None = None, state: LogJumpState | None = None) -> None:
        self._settings = settings or LogJumpSettings()
        self._begin(state or LogJumpState())

    def _begin(self, state: LogJumpState) -> None:
        self.state = structs.replace(state, cusums=b"", tops=b"", bottoms=b"")
        self._cusums = array("f", state.cusums)
        self._tops, self._bottoms = array("f", state.tops), array("f", state.bottoms)

    def stored(self) -> LogJumpState:
        """All that is known."""
        cusums, tops, bottoms = self._cusums.tobytes(), self._tops.tobytes(), self._bottoms.tobytes()
        return structs.replace(self.state, cusums=cusums, tops=tops, bottoms=bottoms)

    def update(self, value: float) -> float:
        """Takes a value; above 1 it shows a jump: the statistic over its limit."""
        state, y = self.state, math.log(value)
        state.count += 1
        if state.count == 1:
            state.mean = y
        correlation = state.covariance / state.variance
        correlation = min(0.98, correlation) if correlation > self._settings.least_correlation else 0.0
        offset = y - state.mean
        innovation = offset - correlation * state.previous
        scale = max(1.2533 * state.spread, 1e-3) * (1.0 + 4.0 / state.count) if state.count > 10 else 1.0
        excess = self._judge(y, innovation, scale, LN_4 * (1.0 - correlation)) if state.count > 20 else 0.0
        self._learn(offset, innovation, scale)
        self._remember(y)
        state.previous = offset
        return excess if state.count > self._settings.min_values else 0.0

    def typical(self) -> float:
        """The geometric mean of the values."""
        return math.exp(self.state.mean)

    def rewind(self) -> None:
        """The run went back: what had added up is undone, what is known of the noise stays."""
        self.state.cusum = self.state.block_cusum = 0.0
        self.state.outside = 0

    def restart(self) -> None:
        """Another run."""
        self._begin(LogJumpState())

    def _judge(self, y: float, innovation: float, scale: float, later_shift: float) -> float:
        state = self.state
        if state.cusum > 0.0 or innovation > 0.5 * later_shift:
            freedom = next((freedom for share, freedom in _TAILS if state.tail < share), 3.0)
            first = log_ratio(innovation / scale, LN_4 / scale, freedom)
            later = log_ratio(innovation / scale, later_shift / scale, freedom)
            state.cusum = min(max(0.0, first, state.cusum + later), 3.0 * state.limit)
            state.block_cusum = max(state.block_cusum, state.cusum)
        state.outside = (state.outside << 1 | (y > state.range_limit)) & 15
        is_outside = state.outside in _THREE_OF_FOUR
        return max(state.cusum / state.limit, 1.01 if is_outside else 0.0)

    def _learn(self, offset: float, innovation: float, scale: float) -> None:
        state, settings = self.state, self._settings
        cap = 3.0 * max(scale, math.sqrt(state.variance))
        clipped = min(cap, max(-cap, offset))
        state.mean += max(settings.mean_rate, 1.0 / state.count) * clipped
        state.variance += 0.01 * (clipped * clipped - state.variance)
        state.covariance += 0.01 * (clipped * min(cap, max(-cap, state.previous)) - state.covariance)
        if state.count > 5:
            size = abs(innovation)
            rate = max(settings.scale_rate, 1.0 / (state.count - 5))
            state.spread += rate * (min(size, 4.0 * scale if state.count > 10 else 9.0) - state.spread)
            state.tail += settings.tail_rate * ((size > 3.0 * scale) - state.tail)

    def _remember(self, y: float) -> None:
        state, settings = self.state, self._settings
        state.block_top = max(state.block_top, min(y, state.range_limit))
        state.block_bottom = min(state.block_bottom, y)
        if state.count % 8:
            return
        self._cusums = self._cusums[-124:]
        self._cusums.append(state.block_cusum)
        state.block_cusum = 0.0
        second = sorted(self._cusums)[-2] if len(self._cusums) > 2 else 0.0
        young = settings.young / (10.0 + state.count)
        state.limit = max(settings.limit + young, settings.margin * second + settings.surplus)
        if state.count % 16 == 0:
            self._remember_range()

    def _remember_range(self) -> None:
        state, settings = self.state, self._settings
        self._tops, self._bottoms = self._tops[-63:], self._bottoms[-63:]
        self._tops.append(state.block_top)
        self._bottoms.append(state.block_bottom)
        state.block_top, state.block_bottom = -math.inf, math.inf
        if len(self._tops) >= 6:
            top, bottom = sorted(self._tops)[-2], sorted(self._bottoms)[1]
            margin = settings.range_margin + settings.young_range / len(self._tops)
            state.range_limit = top + margin * (top - bottom)


def log_ratio(value: float, shift: float, freedom: float) -> float:
    """log t(value − shift) − log t(value), of a Student-t with these degrees of freedom."""
    moved = value - shift
    return 0.5 * (freedom + 1.0) * math.log((freedom + value * value) / (freedom + moved * moved))
