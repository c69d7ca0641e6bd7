"""The policy ``expected-cost``: of everything that can be done, what costs the whole job the fewest seconds.

A cost is the steps by which the run falls behind one that was never hurt, times the seconds of a step. Healing is not
free: while the loss comes down again the unhurt run learns on, so waiting costs the time to heal, and going back costs
the steps since the checkpoint and the load. What was waited already counts for every option alike. An estimate of the
time to heal is believed only in part before it was waited, and after so many steps outside the band as many more are
expected (the ski-rental rule, Karlin et al. 1988): never more than about twice the cost of the best choice made with
hindsight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from holter.pipeline.core.decide.checkpoints import Checkpoint
from holter.pipeline.core.decide.course import Course, presumed
from holter.pipeline.core.decide.settings import CostSettings
from holter.pipeline.core.decide.situation import MONITOR, Choice, Situation, skip_from_onset
from holter.pipeline.core.decide.success import success
from holter.schemas.bounds import EffectName
from holter.schemas.control import ClipAdjust, Effect, LrFactor, MomentumReset, Rollback, Stop, effect_name
from holter.schemas.decisions import Option

_SURELY_LOST = 0.05
_STUBBORN_RECORDS = 25
_ODDS_OF_THE_USUAL_RATE = 0.85
"""That a run whose updates are too large by a factor heals at the rate that makes them what they were."""
_MOST_OVERDRIVE = 10.0
_SKIP = "skip_data"


class Weighed(NamedTuple):
    """An option with its cost in steps from now on; infinite where it cannot be taken."""

    name: str
    effects: tuple[Effect, ...]
    steps: float
    note: str


@dataclass(frozen=True)
class ExpectedCost:
    """A policy; see the module."""

    settings: CostSettings = field(default_factory=CostSettings)

    def __call__(self, situation: Situation) -> Choice:
        costs = Costs(situation, self.settings)
        weighed = costs.all()
        waiting = weighed[0]
        best = min((each for each in weighed[1:] if each.name != _SKIP), key=lambda each: each.steps)
        chosen = best if best.steps + self.settings.margin_steps < waiting.steps else waiting
        return Choice(chosen.name, chosen.effects, _reason(chosen, best, waiting, costs), _options(weighed, costs))


def everything(situation: Situation, settings: CostSettings) -> tuple[Option, ...]:
    """All that could be done, with its cost: for policies that do not weigh, so that it is on record with theirs."""
    costs = Costs(situation, settings)
    return _options(costs.all(), costs)


class Costs:
    """Of one situation, in steps from now on."""

    def __init__(self, situation: Situation, settings: CostSettings) -> None:
        self.situation = situation
        self.settings = settings
        self.course: Course = situation.course or presumed(situation.incident)
        self.step_seconds = situation.step_seconds or 1.0
        self.waited = max(0, situation.step - situation.incident.onset_step)
        self.to_heal = self._steps_to_heal()
        self.poison = self._poisoned_steps()
        self.overdriven = self._overdriven_steps()
        self.p_recover = self._p_recover()
        self._rollbacks = self._weigh_rollbacks(self.is_over)
        self._rollback_later = min(each.steps for each in self._weigh_rollbacks(is_over=True))
        self._if_lost = self._steps_if_lost()

    def all(self) -> list[Weighed]:
        """Waiting first; every option is there, also those that cannot be taken."""
        return [
            self._wait(),
            self._lr_cut(),
            self._momentum_reset(),
            self._clip(),
            self._skip(),
            *self._rollbacks,
            self._stop(),
        ]

    def price(self, checkpoint: Checkpoint) -> float:
        """Steps that going back there loses, besides those since the onset: its age at the onset, and the load."""
        load = self.situation.load_seconds / self.step_seconds
        return self.situation.incident.onset_step - checkpoint.step + load

    @property
    def is_over(self) -> bool:
        """Whether it is over, or goes on for so long that its end is not waited for.

        Weights without numbers are not waited for at all, unless the same came again: then more of the data is passed
        over before the run goes back, since what is skipped ends where the run is.
        """
        if self.situation.non_finite:
            return self.waited >= self._passed_over()
        if self.is_kept_out:
            return False
        return self.course.is_over or self.course.num_after > 0

    @property
    def is_kept_out(self) -> bool:
        """Whether the updates are left out and the losses say that the weights are sound: data, or a loss scale."""
        course = self.course
        return course.num_withheld > 0 and course.num_non_finite == 0 and not self.situation.outside_band

    def _steps_to_heal(self) -> float:
        """If it heals: as estimated and believed in part, as bad data usually does, and at least what was waited.

        Weights that were carried away are walked back in as many ordinary updates, though the noise of a step may
        hide how far they are off; no further than the run has come. Updates that are left out are steps lost: after so
        many, as many more are expected.
        """
        course, settings = self.course, self.settings
        estimated = 0.0 if math.isnan(course.steps_to_heal) else settings.trust * course.steps_to_heal
        if course.mover == "loss" and course.is_over:
            estimated = max(estimated, settings.trust * settings.bad_data_steps * course.num_bad)
        walk_back = min(course.displaced_steps, float(self.situation.step)) - course.num_after
        estimated = max(estimated, settings.trust * walk_back, float(course.num_withheld))
        return max(estimated, float(self.waited)) if self.situation.outside_band else estimated

    def _poisoned_steps(self) -> float:
        """What later steps lose by moments that an exploded gradient went into; a trainer that clips keeps it out."""
        if self.course.mover != "gradient" or self.situation.clips or self._is_reset():
            return 0.0
        excess = self.course.grad_ratio / self.settings.poisoned_ratio
        return self.settings.poisoned_steps * math.log10(excess) if excess > 1.0 else 0.0

    def _p_recover(self) -> float:
        p_recover = self.situation.incident.p_recover
        if self.situation.non_finite:
            return min(_SURELY_LOST, p_recover)
        return 1.0 if math.isnan(p_recover) else p_recover

    def _wait(self) -> Weighed:
        heal = self.p_recover * (self.to_heal + self.poison) + (1.0 - self.p_recover) * self._if_lost
        if self.is_over:
            healing = f"P(recover) {self.p_recover:.2f}, {self._healing()}"
            return Weighed(MONITOR, (), heal + self.overdriven, healing)
        if self.situation.non_finite:
            until, note = self._passed_over() - self.waited, "the same came again: more of the data is passed over"
        else:
            until = max(1, self.course.num_moving, self.course.num_withheld)
            note = "it still goes on, and a cure now would meet it again"
        return Weighed(MONITOR, (), min(heal, until + self._rollback_later), note)

    def _lr_cut(self) -> Weighed:
        """Ends what a learning rate that is too high keeps alive; the steps at the lower rate learn less."""
        settings, cut = self.settings, self._cut()
        price = (1.0 - cut.factor) / 2.0 * settings.ramp_steps
        odds, left = self._success("lr_factor"), self.poison + self.overdriven
        if self._is_overdriven():
            price, odds, left = 0.0, max(odds, _ODDS_OF_THE_USUAL_RATE), self.poison
        elif self._is_stubborn():
            odds = max(odds, 0.4)
        return self._in_place("lr_cut", (cut,), price, max(odds, self.p_recover), left, self._may_cut())

    def _is_overdriven(self) -> bool:
        """Whether updates go on being too large by what a lower rate can take back."""
        return 1.0 < self.course.overdrive <= self.situation.lr_factor / self.situation.lr_floor

    def _overdriven_steps(self) -> float:
        """Ordinary updates by which the weights will be carried too far: what has gone on for long does so as long
        again."""
        course = self.course
        excess = min(course.overdrive, _MOST_OVERDRIVE) - 1.0
        return excess * (course.num_moving + course.num_after)

    def _momentum_reset(self) -> Weighed:
        usable = not self._is_reset() and self.is_over and self.situation.can("momentum_reset")
        odds = self._success("momentum_reset")
        left = (1.0 - odds) * self.poison + self.overdriven
        helps = max(odds, self.p_recover) if self.poison else self.p_recover
        price = self.settings.reset_steps
        return self._in_place("momentum_reset", (MomentumReset(),), price, helps, left, usable)

    def _is_reset(self) -> bool:
        return "momentum_reset" in self.situation.incident.applied

    def _clip(self) -> Weighed:
        """Bounds the next one: worth it where explosions come again and again."""
        settings, usable = self.settings, self.situation.clips and self.situation.can("clip_adjust")
        effects = (ClipAdjust(settings.clip_factor, settings.ramp_steps),)
        saved = self.situation.num_alike * settings.bad_data_steps if self.course.mover == "gradient" else 0.0
        price = 5.0 - self._success("clip_adjust") * saved
        return self._in_place("clip_adjust", effects, price, self.p_recover, self.poison + self.overdriven, usable)

    def _skip(self) -> Weighed:
        """Keeps the data from being met again; what it did is done, so it is never better than waiting."""
        waiting = self._wait()
        steps = waiting.steps + 1.0 if self.situation.can("skip_range") else math.inf
        return Weighed(_SKIP, (skip_from_onset(self.situation),), steps, "undoes nothing by itself")

    def _stop(self) -> Weighed:
        redone = float(self.situation.step)
        seconds = self.settings.restart_seconds
        usable = self.situation.can("stop") and not self._rollback_is_possible() and self.p_recover < 0.5
        steps = redone + seconds / self.step_seconds if usable else math.inf
        return Weighed("stop", (Stop(),), steps, "a person starts it anew" if usable else "there is a way on")

    def _weigh_rollbacks(self, is_over: bool) -> list[Weighed]:
        """To each healthy checkpoint; the cheapest is called plainly ``rollback``, and there always is one."""
        situation = self.situation
        if situation.checkpoint is None:
            return [Weighed("rollback", (), math.inf, "no healthy checkpoint is known")]
        targets = (situation.checkpoint, *situation.older_checkpoints)
        weighed = [self._weigh_rollback(target, is_over) for target in targets]
        cheapest = min(weighed, key=lambda each: each.steps)
        return [each._replace(name="rollback") if each is cheapest else each for each in weighed]

    def _weigh_rollback(self, target: Checkpoint, is_over: bool) -> Weighed:
        effects = self._way_back(target)
        name = f"rollback to {target.name}"
        note = f"to {target.name} of step {target.step}"
        if not self.situation.can("rollback"):
            return Weighed(name, effects, math.inf, f"{note}: it is not among what may be done")
        if len(effects) == 1 and self._num_tried():
            return Weighed(name, effects, math.inf, f"{note}: it would be the same replay again")
        helps = self._success("rollback") * (1.0 - self._repeat_chance(target, is_over))
        price = self.price(target)
        return Weighed(name, effects, price + (1.0 - helps) * (self.settings.look_steps + price), note)

    def _way_back(self, target: Checkpoint) -> tuple[Effect, ...]:
        """Past the data, and slower where the updates go on being too large, or the same came again though the data was
        skipped, or cannot be."""
        situation = self.situation
        effects: tuple[Effect, ...] = (Rollback(target.name, target.step),)
        if situation.can("skip_range"):
            effects = (*effects, skip_from_onset(situation))
        comes_again = self._num_tried() > 0 and self.course.mover != "loss" and not situation.non_finite
        if (comes_again or len(effects) == 1 or self.course.overdrive > 1.0) and self._may_cut():
            effects = (*effects, self._cut())
        return effects

    def _cut(self) -> LrFactor:
        """By the usual share, or as far as updates are too large that go on: with the rate they are what they were."""
        share = min(self.settings.lr_cut, 1.0 / self.course.overdrive)
        return LrFactor(max(self.situation.lr_floor, self.situation.lr_factor * share), self.settings.ramp_steps)

    def _may_cut(self) -> bool:
        return self.situation.lr_factor > self.situation.lr_floor and self.situation.can("lr_factor")

    def _repeat_chance(self, target: Checkpoint, is_over: bool) -> float:
        settings = self.settings
        is_fed_again = not self.situation.can("skip_range") and self.course.mover in ("loss", "unknown")
        if not is_over or (is_fed_again and not self.situation.non_finite):
            return settings.repeat_chance_ongoing
        tried = self.situation.num_tried.get(target.name, 0)
        return max(settings.repeat_chance, settings.repeat_chance_tried) if tried else settings.repeat_chance

    def _in_place(
        self, name: str, effects: tuple[Effect, ...], price: float, helps: float, left: float, usable: bool
    ) -> Weighed:
        """A cure that leaves the weights as they are: what was lost has still to be learned again."""
        if not usable:
            return Weighed(name, effects, math.inf, "it is not among what may be done")
        steps = price + helps * (self.to_heal + left) + (1.0 - helps) * self._if_lost
        return Weighed(name, effects, steps, f"helps with {helps:.2f}, {price:.0f} steps by itself")

    def _steps_if_lost(self) -> float:
        """What it costs in the end if the run does not heal."""
        begin_again = float(self.situation.step) + self.settings.unnoticed_steps
        return self.settings.look_steps + min(self._rollback_later, begin_again)

    def _rollback_is_possible(self) -> bool:
        return any(math.isfinite(each.steps) for each in self._rollbacks)

    def _num_tried(self) -> int:
        return sum(self.situation.num_tried.values())

    def _passed_over(self) -> int:
        """Twice as many every time: what was passed over before was too little."""
        tried = self._num_tried()
        return int(self.settings.pass_over_steps) * (1 << min(tried, 8)) if tried else 0

    def _is_stubborn(self) -> bool:
        return self.waited >= _STUBBORN_RECORDS and self.p_recover < 0.5

    def _success(self, effect: EffectName) -> float:
        situation = self.situation
        kind = situation.incident.kind
        weight = self.settings.prior_weight
        return success(self.course.mover, kind, effect, situation.helped, situation.priors, weight)

    def _healing(self) -> str:
        poison = f" and {self.poison:.0f} in the moments" if self.poison else ""
        return f"about {self.to_heal:.0f} steps to heal{poison}"


def _options(weighed: list[Weighed], costs: Costs) -> tuple[Option, ...]:
    return tuple(_option(each, costs) for each in weighed)


def _option(weighed: Weighed, costs: Costs) -> Option:
    """As it is recorded: with the steps since the onset, which every option has lost already."""
    effects = [effect_name(effect) for effect in weighed.effects]
    if not math.isfinite(weighed.steps):
        return Option(weighed.name, effects, available=False, note=weighed.note)
    seconds = max(0.0, costs.waited + weighed.steps) * costs.step_seconds
    return Option(weighed.name, effects, cost_seconds=round(seconds, 6), note=weighed.note)


_MOVED = {
    "update": "the update norm moved first",
    "gradient": "the gradient moved first",
    "loss": "the loss moved first, the updates before it were calm",
    "unknown": "what moved first is not known",
}


def _reason(chosen: Weighed, best: Weighed, waiting: Weighed, costs: Costs) -> str:
    cause = "a non-finite value may be in the weights" if costs.situation.non_finite else _MOVED[costs.course.mover]
    if chosen is waiting:
        other = f", {best.name} {best.steps:.0f}" if math.isfinite(best.steps) else ", and there is nothing else"
        return f"{cause}; waiting costs {waiting.steps:.0f} steps from now ({waiting.note}){other}"
    return f"{cause}; {chosen.name} costs {chosen.steps:.0f} steps ({chosen.note}), waiting {waiting.steps:.0f}"
