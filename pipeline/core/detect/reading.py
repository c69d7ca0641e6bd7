"""What a view says of a value that is out of the ordinary."""

from __future__ import annotations

from typing import NamedTuple


class Reading(NamedTuple):
    """Scores are in scales of the run's own residuals; limits are what the run has shown by itself.

    Attributes:
        level: the short median, in the metric's unit.
        raw: the score.
        score: the same, corrected for the tail of the run's own scores.
        record: the raw score that may come in pairs by itself only once in thousands of records.
        single_record: more than the largest it has ever shown.
        joint_record: what it exceeds now and then.
        usual_gap: value - level, of the logs, over the third largest of this run, margin included.
        drift: the cumulative sum over its limit.
        base: what the cumulative sum counts from: the lowest of the last levels.
        lasting: the middle one of this value and the four before, the latter as they were learned.
        rise: from the base to that, over the most that levels of this run rise by themselves; 0 where the run has
            been at that level in the last 512 records.
        chance: the share of this run's own scores that are at least this one's, at most 3.
        company: the share of this run's high scores that came right after another one.
        is_new: three of the last four values were above everything seen for a thousand records.
        lately: the highest level of the last 64 records.
    """

    value: float
    level: float
    raw: float
    score: float
    record: float
    single_record: float
    joint_record: float
    usual_gap: float
    drift: float
    base: float
    lasting: float
    rise: float
    chance: float
    company: float
    is_new: bool
    lately: float


class Measure(NamedTuple):
    """What a view makes of a value that it has not taken.

    Attributes:
        score: in scales of the run's own residuals, corrected for the tail of its own scores.
        over_record: the raw score over more than the largest that the run has shown.
        over_pairs: the raw score over that which may come in pairs by itself.
        drift: the cumulative sum so far over its limit.
    """

    score: float
    over_record: float
    over_pairs: float
    drift: float


NOT_MEASURED = Measure(0.0, 0.0, 0.0, 0.0)
