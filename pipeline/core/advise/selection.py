"""The decision tree: what for, how large, what has happened, what a loss would cost.

Size and use choose what to begin with, as design guides for large runs do. What has happened is the better ground:
a cure has to fit what moved first. A gradient that explodes is harmless once any gradient clipper holds it; an update
that explodes with gradients as usual is only met by a bound on updates, or by going back; a loss that jumps with both
as usual comes from data, and no clipper changes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from holter.pipeline.core.advise import stabilisers as known
from holter.pipeline.core.advise.needs import History, Needs
from holter.pipeline.core.advise.stabilisers import Stabiliser

_LARGE, _HUGE = 7e9, 70e9
_GRADIENT_CLIPPERS = (known.GLOBALGC, known.AGC, known.ADAGC, known.ZCLIP)
_OPTIMIZERS = (known.SPAM, known.CLIPPY)
_QUIET_STEPS = 10_000


@dataclass(frozen=True)
class Pick:
    stabiliser: Stabiliser
    why: str


@dataclass
class Advice:
    """``path`` are questions with their answers; ``against`` what the tree names, and why it is not for this job."""

    path: list[tuple[str, str]] = field(default_factory=list)
    picks: list[Pick] = field(default_factory=list)
    against: list[Pick] = field(default_factory=list)

    def take(self, stabiliser: Stabiliser, why: str) -> None:
        """Once; the first reason stays."""
        if not self.has(stabiliser):
            self.picks.append(Pick(stabiliser, why))

    def has(self, *stabilisers: Stabiliser) -> bool:
        return any(pick.stabiliser in stabilisers for pick in self.picks)


def advise(needs: Needs, history: History | None) -> Advice:
    """``history`` is None where nothing is known of it."""
    advice = Advice()
    _by_use(advice, needs)
    _by_history(advice, needs, history)
    _by_cost(advice, needs)
    return advice


def _by_use(advice: Advice, needs: Needs) -> None:
    advice.path.append(("What is it for?", needs.use))
    if needs.use == "prototype":
        advice.take(known.GLOBALGC, "enough for a run that is begun anew at no cost")
        advice.take(known.MONITOR, "to learn what the job does before more is allowed")
        return
    if needs.use == "research":
        _take_spam(advice, needs, "its resets and clips say which coordinates spike")
        advice.take(known.DETAILED_LOGS, "every tensor's norm and score, to see where a spike begins")
        return
    _by_size(advice, needs)
    if needs.use == "reliability":
        advice.take(known.LAYERED_DETECTION, "what one view misses another one sees")
        advice.take(known.CHECKPOINTS, _checkpoint_reason(needs))


def _by_size(advice: Advice, needs: Needs) -> None:
    billions = needs.num_parameters / 1e9
    if needs.num_parameters < _LARGE:
        advice.path.append(("How large?", f"{billions:.3g}B parameters: below 7B"))
        advice.take(known.GLOBALGC, "the guides name nothing more below 7B; what happens decides")
    elif needs.num_parameters < _HUGE:
        advice.path.append(("How large?", f"{billions:.3g}B parameters: from 7B to 70B"))
        chosen, reason = (
            (known.AGC, "for SGD") if needs.optimizer == "sgd" else (known.ADAGC, "a limit for each tensor")
        )
        advice.take(chosen, f"{reason}: at this size one tensor's spike should not take the step from the others")
        advice.take(known.ROLLBACK, "what a clipper lets through is undone")
    else:
        advice.path.append(("How large?", f"{billions:.3g}B parameters: 70B and more"))
        _take_spam(advice, needs, "spikes of single coordinates grow with size")
        advice.take(known.MSIGN, "keeps the rank of attention matrices, whose collapse precedes late failures")
        _take_checkfree(advice, needs)
        advice.take(known.ROLLBACK, "for what none of them holds")


def _take_spam(advice: Advice, needs: Needs, why: str) -> None:
    if needs.optimizer == "adam":
        advice.take(known.SPAM, why)
        return
    advice.against.append(Pick(known.SPAM, "it is a kind of Adam, and the job has another optimizer"))
    advice.take(known.ZCLIP, "a gradient clipper that works under any optimizer")


def _take_checkfree(advice: Advice, needs: Needs) -> None:
    if needs.num_stages >= 3:
        advice.take(
            known.CHECKFREE, f"a lost stage of {needs.num_stages} is rebuilt from its neighbours, with no checkpoint"
        )
    else:
        stages = "no pipeline stages" if needs.num_stages < 2 else "two stages, neither with two neighbours"
        advice.against.append(
            Pick(known.CHECKFREE, f"it rebuilds pipeline stages from both neighbours: the job has {stages}")
        )


def _by_history(advice: Advice, needs: Needs, history: History | None) -> None:
    question = "What has happened?"
    if history is None:
        advice.path.append((question, "not known: name a run of the store, or give its numbers"))
        return
    said = ", ".join(_counts(history)) or "nothing"
    advice.path.append((question, f"{said} in {history.num_steps:,} steps"))
    if history.num_gradient:
        _meet_gradients(advice, needs)
    if history.num_update:
        _meet_updates(advice)
    if history.num_loss:
        advice.take(known.SKIP, "the loss jumps while gradients are as usual: that is data, and no clipper changes it")
    if history.num_nonfinite:
        advice.take(known.NAN_GUARD, "values that are no numbers must not reach the weights")
    if history.num_lost:
        advice.take(known.ROLLBACK, f"{history.num_lost} did not heal by themselves")
    if not history.num_incidents and history.num_steps < _QUIET_STEPS:
        advice.path.append(("Is that long enough to tell?", f"no: {_QUIET_STEPS:,} steps would be"))


def _meet_gradients(advice: Advice, needs: Needs) -> None:
    if not advice.has(*_GRADIENT_CLIPPERS, known.SPAM):
        advice.take(known.ZCLIP, "gradients explode and nothing chosen above holds them")
    elif advice.has(known.GLOBALGC) and needs.use != "prototype":
        advice.picks = [pick for pick in advice.picks if pick.stabiliser is not known.GLOBALGC]
        advice.against.append(Pick(known.GLOBALGC, "gradients explode, and a fixed limit loosens as norms fall"))
        advice.take(known.ZCLIP, "gradients explode: a limit that follows the run's own norms")


def _meet_updates(advice: Advice) -> None:
    why = "updates explode while gradients do not, as after a burst of the learning rate"
    if advice.has(*_OPTIMIZERS):
        advice.against.append(Pick(known.CLIPPY, "an optimizer is chosen already, and it would be another"))
    else:
        advice.take(known.CLIPPY, why)
    advice.take(known.ROLLBACK, why)


def _by_cost(advice: Advice, needs: Needs) -> None:
    cost = needs.cost_class()
    if cost is None:
        advice.path.append(("What does it cost?", "not known"))
        return
    advice.path.append(("What does it cost?", f"{cost}: {needs.usd_per_month:,.0f} USD a month"))
    if cost == "$":
        return
    advice.take(known.ROLLBACK, "steps are dear: what is lost is gone back over, not begun anew")
    if cost == "$$$":
        advice.take(known.CHECKPOINTS, _checkpoint_reason(needs))


def _checkpoint_reason(needs: Needs) -> str:
    if needs.save_seconds is None or needs.mtbf_hours is None:
        return "the steps since the last one are what going back costs"
    minutes = checkpoint_interval_seconds(needs.save_seconds, 3600.0 * needs.mtbf_hours) / 60.0
    given = f"{needs.save_seconds:g} s to save and a failure in {needs.mtbf_hours:g} h"
    return f"every {minutes:.1f} minutes loses least (Young 1974), with {given}"


def checkpoint_interval_seconds(save_seconds: float, mtbf_seconds: float) -> float:
    """√(2 δ MTBF), Young 1974.

    >>> round(checkpoint_interval_seconds(60.0, 3.1 * 3600) / 60, 1)
    19.3
    """
    return math.sqrt(2.0 * save_seconds * mtbf_seconds)


def _counts(history: History) -> Iterator[str]:
    named = (
        (history.num_gradient, "exploding gradients"),
        (history.num_update, "exploding updates"),
        (history.num_loss, "jumps of the loss alone"),
        (history.num_nonfinite, "non-finite values"),
        (history.num_lost, "of them lost"),
    )
    return (f"{count} {name}" for count, name in named if count)
