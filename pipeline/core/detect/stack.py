"""All detectors of one run, on shared views of its loss, gradient norm and update norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from msgspec import Struct

from holter.pipeline.core.detect.collapse import Collapse, CollapseSettings, CollapseState
from holter.pipeline.core.detect.creep import Creep, CreepSettings, CreepState
from holter.pipeline.core.detect.divergence import Divergence, DivergenceSettings, DivergenceState
from holter.pipeline.core.detect.evidence import Evidence
from holter.pipeline.core.detect.exceedances import Exceedances
from holter.pipeline.core.detect.explosion import Explosion, ExplosionSettings
from holter.pipeline.core.detect.first_rows import FirstRows, FirstRowsSettings, FirstRowsState
from holter.pipeline.core.detect.habits import Habits, HabitSettings
from holter.pipeline.core.detect.learned import Learned, LearnedModel, LearnedState
from holter.pipeline.core.detect.level_shift import LevelShift, LevelShiftSettings, LevelShiftState
from holter.pipeline.core.detect.log_jump import LogJump, LogJumpSettings, LogJumpState
from holter.pipeline.core.detect.loss_scale import LossScale, LossScaleSettings, LossScaleState
from holter.pipeline.core.detect.loss_spike import LossSpike, LossSpikeSettings
from holter.pipeline.core.detect.nonfinite import non_finite
from holter.pipeline.core.detect.own_record import BLOCK_RECORDS
from holter.pipeline.core.detect.passed_highs import PassedHighs
from holter.pipeline.core.detect.phase import Phase, PhaseSettings, PhaseState
from holter.pipeline.core.detect.plateau import Plateau, PlateauSettings, PlateauState
from holter.pipeline.core.detect.reading import Reading
from holter.pipeline.core.detect.unexplained_updates import (
    UnexplainedUpdates,
    UnexplainedUpdateSettings,
    UnexplainedUpdateState,
)
from holter.pipeline.core.detect.view import MetricView, ViewSettings
from holter.pipeline.core.detect.view_state import ViewState
from holter.pipeline.core.steps import StepRecord
from holter.schemas.telemetry import GRAD_NORM, LEARNING_RATE, LOSS, LOSS_SCALE, UPDATE_NORM


@dataclass(frozen=True)
class DetectorSettings:
    view: ViewSettings = field(default_factory=ViewSettings)
    phase: PhaseSettings = field(default_factory=PhaseSettings)
    loss: LossSpikeSettings = field(default_factory=LossSpikeSettings)
    norms: ExplosionSettings = field(default_factory=ExplosionSettings)
    unexplained: UnexplainedUpdateSettings = field(default_factory=UnexplainedUpdateSettings)
    divergence: DivergenceSettings = field(default_factory=DivergenceSettings)
    creep: CreepSettings = field(default_factory=CreepSettings)
    shift: LevelShiftSettings = field(default_factory=LevelShiftSettings)
    plateau: PlateauSettings = field(default_factory=PlateauSettings)
    first_rows: FirstRowsSettings = field(default_factory=FirstRowsSettings)
    collapse: CollapseSettings = field(default_factory=CollapseSettings)
    loss_scale: LossScaleSettings = field(default_factory=LossScaleSettings)
    jump: LogJumpSettings = field(default_factory=LogJumpSettings)
    jump_size: float = 1.0
    """The rise above the level, relative as in :meth:`Phase.relative`."""
    jump_level: float = 0.05
    """Where the level is less than this share of the positive values' own, most are zero: logarithms say nothing."""
    habits: HabitSettings = field(default_factory=HabitSettings)
    joint_score: float = 4.0
    joint_size: float = 0.1
    """Loss and gradient norm both beyond this within three records are evidence where neither is alone."""
    negligible_share: float = 0.002
    """A loss that is less than this share of the first one is as good as zero."""
    progress_ratio: float = 10.0
    """A norm that grows by less than this while the loss falls is no evidence."""
    same_level_scales: float = 4.0
    """A log whose steps go back goes on as the same run while its loss is this close to its level."""
    learned: LearnedModel | None = None
    """Of the fitted detector, whose words are notices; None leaves it out."""


class StackState(Struct):
    phase: PhaseState | None = None
    loss: ViewState | None = None
    grad: ViewState | None = None
    update: ViewState | None = None
    loss_seen: list[tuple[int, int]] = []
    grad_seen: list[tuple[int, int]] = []
    update_seen: list[tuple[int, int]] = []
    divergence: DivergenceState | None = None
    first_rows: FirstRowsState | None = None
    creep: CreepState | None = None
    collapse: CollapseState | None = None
    loss_scale: LossScaleState | None = None
    jump: LogJumpState | None = None
    habits: dict[str, float] = {}
    opening: list[str] = []
    """The rules that spoke last while no incident was open."""
    incident: str = ""
    """The one that opened last."""
    loss_passed: list[tuple[int, float]] = []
    unexplained: UnexplainedUpdateState | None = None
    shift: LevelShiftState | None = None
    plateau: PlateauState | None = None
    learned: LearnedState | None = None


class DetectorStack:
    """Takes the records of the judged rank; says what is out of the ordinary."""

    def __init__(self, settings: DetectorSettings, state: StackState | None = None) -> None:
        self._settings = settings
        kept = state or StackState()
        self.phase = Phase(settings.phase, kept.phase)
        self.loss = MetricView(settings.view, settings.negligible_share, kept.loss)
        self.grad = MetricView(settings.view, state=kept.grad)
        self.norm = MetricView(settings.view, state=kept.update)
        self._spike = LossSpike(LOSS, settings.loss, Exceedances(kept.loss_seen), PassedHighs(kept.loss_passed))
        self._explosion = Explosion("grad_explosion", GRAD_NORM, settings.norms, Exceedances(kept.grad_seen))
        self._update = Explosion("update_explosion", UPDATE_NORM, settings.norms, Exceedances(kept.update_seen))
        self._unexplained = UnexplainedUpdates(settings.unexplained, kept.unexplained)
        self._divergence = Divergence(LOSS, settings.divergence, kept.divergence)
        self._creep = Creep(GRAD_NORM, settings.creep, kept.creep)
        self._shift = LevelShift(LOSS, settings.shift, kept.shift)
        self._plateau = Plateau(LOSS, settings.plateau, kept.plateau)
        self._first_rows = FirstRows(settings.first_rows, kept.first_rows)
        self._collapse = Collapse(LOSS, settings.collapse, kept.collapse)
        self._loss_scale = LossScale(LOSS_SCALE, settings.loss_scale, kept.loss_scale)
        self._jump = LogJump(settings.jump, kept.jump)
        self._habits = Habits(settings.habits, kept.habits)
        self.learned = Learned(settings.learned, kept.learned) if settings.learned is not None else None
        self._opening = list(kept.opening)
        self._incident = kept.incident
        self.began_run = False
        """The last record was the first of another run in the same log, or of an earlier part of this one."""
        self.notices: list[Evidence] = []
        """What the last record had to say that is no trouble."""

    def update(self, record: StepRecord, incident: str = "") -> list[Evidence]:
        """Takes one record; what it finds is in the order update, gradient, loss, which is that of cause and effect.

        Args:
            incident: the id of the one that is open, empty where none is.
        """
        values, step = record.values, record.step
        loss, grad, norm = values.get(LOSS), values.get(GRAD_NORM), values.get(UPDATE_NORM)
        in_incident = incident != ""
        if in_incident is not self.loss.is_suspended:
            self._suspend(incident)
        found: list[Evidence] = []
        self.began_run = False
        if self.notices:
            self.notices = []
        is_finite = True
        if loss is not None:
            is_finite = loss - loss == 0.0
            self.phase.advance(step)
            if is_finite:
                if self.phase.state.went_back:
                    self._went_back(loss)
                self.phase.note_loss(loss)
        rate = values.get(LEARNING_RATE)
        if rate is not None and rate != self.phase.state.rate and self.phase.begins_cycle(rate):
            self.begin_phase()
        if self.learned is not None:
            self._ask_learned(self.learned, step, loss, grad, in_incident)
        if not self._first_rows.state.is_done:
            self._look_at_first_rows(step, loss, grad, found)
        if norm is not None:
            if norm - norm == 0.0:
                self._take_update(step, norm, found)
                item = self._unexplained.update(step, norm, self.phase.state.rate, grad)
                if item is not None and not self._is_progress(item):
                    found.append(item)
            else:
                is_finite = False
        grad_reading = None
        if grad is not None:
            if grad - grad == 0.0:
                grad_reading = self._take_grad(step, grad, found)
            else:
                is_finite = False
        if loss is not None and loss - loss == 0.0:
            self._take_loss(step, loss, in_incident, found, grad_reading)
        if not is_finite and (item := non_finite(record)) is not None:
            found.insert(0, item)
        if LOSS_SCALE in values and (item := self._loss_scale.update(step, values[LOSS_SCALE])) is not None:
            found.append(item)
        return self._more_than_habit(found) if found and not in_incident else found

    def _ask_learned(
        self, learned: Learned, step: int, loss: float | None, grad: float | None, in_incident: bool
    ) -> None:
        item = learned.update(step, loss, grad, (self.loss, self.grad), self.phase, in_incident)
        if item is not None:
            self.notices.append(item)

    def _more_than_habit(self, found: list[Evidence]) -> list[Evidence]:
        found = self._habits.exceeded(found)
        if found:
            self._opening = sorted({item.rule for item in found if item.rule})
        return found

    def _suspend(self, incident: str) -> None:
        for view in self._views():
            view.is_suspended = incident != ""
        if not incident:
            return
        is_again = incident == self._incident
        for view in self._views():
            view.forgive(is_again)
        if not is_again:
            self._incident = incident
            self._habits.note(self._opening)

    def _views(self) -> tuple[MetricView, MetricView, MetricView]:
        return self.loss, self.grad, self.norm

    def begin_phase(self) -> None:
        """Something about the run has changed on purpose (batch size, data): levels begin anew, noise is kept."""
        for view in self._views():
            view.begin_level()

    def _take_update(self, step: int, norm: float, found: list[Evidence]) -> None:
        reading = self.norm.observe(step, norm)
        if reading is not None:
            item = self._update.judge(reading, step, self.norm.count, self.phase)
            if item is not None and not self._is_progress(item):
                found.append(item)

    def _take_grad(self, step: int, grad: float, found: list[Evidence]) -> Reading | None:
        view = self.grad
        reading = view.observe(step, grad)
        if reading is not None:
            item = self._explosion.judge(reading, step, view.count, self.phase)
            if item is not None and not self._is_progress(item):
                found.append(item)
        if not view.count % BLOCK_RECORDS:
            item = self._creep.update(step, view.level(), view.lowest(), self.loss.is_falling())
            if item is not None:
                found.append(item)
        return reading

    def _take_loss(
        self, step: int, loss: float, in_incident: bool, found: list[Evidence], grad: Reading | None
    ) -> None:
        phase, view = self.phase, self.loss
        reading = view.observe(step, loss)
        if reading is not None:
            item = self._spike.judge(reading, step, view.count, phase)
            if item is None and grad is not None and phase.is_coarse:
                item = self._judge_together(reading, grad, step)
            if item is not None:
                found.append(item)
        if view.is_loud and loss > 0.0 and (item := self._jump_evidence(step, loss)) is not None:
            found.append(item)
        if loss == 0.0:
            item = self._collapse.note_zero(step, view.count)
            if item is not None:
                found.append(item)
        elif self._collapse.state.num_zeros:
            self._collapse.note_other(loss, phase.start_level())
        if not view.count % BLOCK_RECORDS and not in_incident and view.count > 2 * BLOCK_RECORDS:
            self._take_level(step, view.level(), view.scale(), found)

    def _take_level(self, step: int, level: float, scale: float, found: list[Evidence]) -> None:
        shift = self._shift.update(step, level, scale, self.phase)
        if shift is not None:
            self.notices.append(shift)
        standstill = self._plateau.update(step, self.loss.count, level, scale, self.phase)
        if standstill is not None:
            self.notices.append(standstill)
        item = self._divergence.update(step, self.loss.count, level, scale, self.phase)
        if item is not None:
            found.append(item)

    def _jump_evidence(self, step: int, loss: float) -> Evidence | None:
        excess = self._jump.update(loss)
        level, least = self.loss.level(), self._settings.jump.limit
        if excess <= 1.0 or self.phase.relative(loss - level, level) < self._settings.jump_size:
            return None
        if level < self._settings.jump_level * self._jump.typical():
            return None
        return Evidence("loss_spike", LOSS, loss, level, excess * least, least, "warning", step, "loss jump", excess)

    def _judge_together(self, loss: Reading, grad: Reading, step: int) -> Evidence | None:
        """Where neither is evidence alone, both in one record of a coarse log are."""
        settings = self._settings
        size = self.phase.relative(loss.value - loss.level, loss.level)
        least = settings.joint_score
        if min(loss.score, grad.score) <= least or size < settings.joint_size or grad.value < 3.0 * grad.level:
            return None
        if loss.raw <= loss.joint_record or grad.raw <= grad.joint_record:
            return None
        return Evidence("loss_spike", LOSS, loss.value, loss.level, loss.score, least, "warning", step)

    def _is_progress(self, item: Evidence) -> bool:
        """A norm that grows while the loss falls is a run that begins to learn."""
        return item.score < self._settings.progress_ratio and self.loss.is_falling()

    def _look_at_first_rows(self, step: int, loss: float | None, grad: float | None, found: list[Evidence]) -> None:
        finite_loss = loss if loss is not None and math.isfinite(loss) else None
        finite_grad = grad if grad is not None and math.isfinite(grad) else None
        item = self._first_rows.update(step, finite_loss, finite_grad, self.phase)
        if item is not None:
            found.append(item)

    def _went_back(self, loss: float) -> None:
        """Steps fell to half or less: another run, unless the loss goes on at its level."""
        view = self.loss
        self.phase.state.went_back = False
        level, scale = view.level(), view.scale()
        self.began_run = True
        if not len(view) or abs(loss - level) > self._settings.same_level_scales * scale:
            self.restart()

    def band(self, metric: str) -> tuple[float, float, float] | None:
        """Level, and from where to where values of a metric are ordinary; None where it is not judged, or young."""
        view = {LOSS: self.loss, GRAD_NORM: self.grad, UPDATE_NORM: self.norm}.get(metric)
        return view.band() if view is not None else None

    def restart(self) -> None:
        settings = self._settings
        self.loss = MetricView(settings.view, settings.negligible_share)
        self.grad = MetricView(settings.view)
        self.norm = MetricView(settings.view)
        self.phase.begin_run()
        for detector in (
            self._divergence, self._creep, self._first_rows, self._collapse, self._loss_scale, self._jump,
            self._unexplained, self._shift, self._plateau,
        ):  # fmt: skip
            detector.restart()
        if self.learned is not None:
            self.learned.restart()
        self._forget_company()

    def _forget_company(self) -> None:
        for seen in (self._spike.seen, self._explosion.seen, self._update.seen):
            seen.kept = []
        self._spike.passed.kept = []

    def settle(self) -> None:
        """An incident has ended."""
        for view in self._views():
            view.settle()
        self._divergence.settle()
        self._unexplained.settle()

    def rewind(self, step: int) -> None:
        for view in self._views():
            view.rewind(step)
        self._forget_company()
        self._divergence.restart()
        self._shift.restart()
        self._plateau.restart()
        self._loss_scale.restart()
        self._jump.rewind()
        if self.learned is not None:
            self.learned.restart()
        self._unexplained.rewind(step)
        self.phase.state.last_step = min(step, self.phase.state.last_step)

    def state(self) -> StackState:
        return StackState(
            self.phase.state,
            self.loss.state(),
            self.grad.state(),
            self.norm.state(),
            self._spike.seen.kept,
            self._explosion.seen.kept,
            self._update.seen.kept,
            self._divergence.state,
            self._first_rows.state,
            self._creep.state,
            self._collapse.state,
            self._loss_scale.state,
            self._jump.stored(),
            self._habits.counts,
            self._opening,
            self._incident,
            self._spike.passed.kept,
            self._unexplained.stored(),
            self._shift.state,
            self._plateau.state,
            self.learned.state if self.learned is not None else None,
        )
