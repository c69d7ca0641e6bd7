"""A defect met at one run's record costs that run's attempt and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holter.pipeline.core.run_operator import WINDOW_STATS, RunOperator
from holter.pipeline.core.set_aside import DEFECTS, RunSetAside
from holter.pipeline.core.signals import SignalStage
from holter.pipeline.core.silence import SilenceStage
from holter.pipeline.core.windows import WindowStage
from holter.schemas import encode, topics
from holter.schemas.commands import Hold
from holter.schemas.telemetry import LOSS, CheckpointSaved, Parent
from tests.core.test_run_operator import PERSON, Loop, healthy_run
from tests.telemetry import ALL_EFFECTS, START_MS

POISON = 13.0


def failing_at_poison(update: Callable[..., Any]) -> Callable[..., Any]:
    def update_or_fail(self: object, record: Any, now: int) -> Any:
        if record.values[LOSS] == POISON:
            raise IndexError("a ring of no values")
        return update(self, record, now)

    return update_or_fail


@pytest.fixture(autouse=True)
def defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SignalStage, "update", failing_at_poison(SignalStage.update))
    monkeypatch.setattr(Loop, "tolerates_defects", True)


def poisoned() -> Loop:
    loop = healthy_run()
    loop.step(POISON)
    return loop


def go_back(loop: Loop) -> None:
    loop.trainer.go_back(49)
    loop.send(loop.trainer.event(msgspec.structs.replace(ALL_EFFECTS, parent=Parent(1, 49))))


def signals(loop: Loop) -> list[tuple[str, str, str]]:
    return [(each.kind, each.phase, each.metric) for each in loop.decoded(topics.SIGNALS)]  # type: ignore[attr-defined]


def test_the_record_is_kept_with_where_the_defect_is_and_the_run_is_said_to_be_unwatched() -> None:
    loop = poisoned()
    (letter,) = loop.defects()
    assert letter.topic == topics.TELEMETRY.name
    assert letter.detail.startswith("IndexError: a ring of no values, at test_set_aside.py:")
    assert signals(loop) == [("blind", "open", DEFECTS)]
    (signal,) = loop.decoded(topics.SIGNALS)
    assert (signal.step, signal.rank) == (100, -1)  # type: ignore[attr-defined]
    assert "IndexError" in signal.explanation  # type: ignore[attr-defined]


def test_it_is_neither_judged_nor_treated_while_another_run_is() -> None:
    loop = poisoned()
    for _ in range(3):
        loop.step(float("nan"))
        loop.step(POISON)
    assert (loop.actions(), loop.decisions(), len(loop.defects())) == ([], [], 1)
    other = healthy_run()
    loop.trainer, other.trainer = other.trainer, loop.trainer
    loop.trainer.run, loop.trainer.seq, loop.trainer.step = "day", 0, 0
    loop.send(loop.trainer.event(ALL_EFFECTS))
    loop.step(2.0)
    loop.step(float("nan"))
    assert ("nan", "open", LOSS) in signals(loop)


def test_the_next_attempt_is_judged_and_treated_again() -> None:
    loop = poisoned()
    go_back(loop)
    assert signals(loop) == [("blind", "open", DEFECTS), ("blind", "close", DEFECTS)]
    loop.step(float("nan"))
    loop.step(float("nan"))
    assert [effect.checkpoint for effect in loop.actions()[0].effects[:1]] == ["step-49"]  # type: ignore[union-attr]


def test_a_defect_that_stays_is_told_once_an_attempt() -> None:
    loop = poisoned()
    loop.trainer.go_back(49)
    loop.step(POISON)
    loop.step(POISON)
    assert [phase for _, phase, _ in signals(loop)] == ["open", "close", "open"]
    assert len(loop.defects()) == 2


def test_a_restart_goes_on_as_if_nothing_had_happened() -> None:
    undisturbed, restarted = poisoned(), poisoned()
    for loop in (undisturbed, restarted):
        for _ in range(70):
            loop.step(2.0)
            if loop is restarted:
                loop.restart()
    assert len(restarted.defects()) == 1
    restarted.driver.load("gpt/night")
    assert restarted.driver.snapshots() == undisturbed.driver.snapshots()


def test_a_restore_does_not_meet_the_defect_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = poisoned()
    monkeypatch.setattr(SignalStage, "update", lambda *_: pytest.fail("judged again"))
    loop.restart()
    loop.step(2.0)
    assert signals(loop) == [("blind", "open", DEFECTS)]


def test_a_release_that_fails_where_the_last_did_not_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = healthy_run()
    loop.step(2.0)
    loop.restart()
    monkeypatch.setattr(SignalStage, "update", failing_at_poison(lambda *_: 1 / 0))
    loop.step(2.0)
    assert signals(loop) == [("blind", "open", DEFECTS)]
    assert loop.driver.snapshots()


def test_people_and_the_trainer_are_still_heard() -> None:
    loop = poisoned()
    loop.send(loop.trainer.event(CheckpointSaved("step-100", save_seconds=0.05)))
    loop.send(PERSON.sign(encode(Hold("gpt", "night", "ada", START_MS))), topics.HOLDS)
    go_back(loop)
    for _ in range(3):
        loop.step(float("nan"))
    assert loop.actions() == []
    assert "the run is on hold" in {decision.held for decision in loop.decisions()}


def test_state_that_cannot_be_written_is_a_defect_of_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = healthy_run()
    whole = SignalStage.state
    monkeypatch.setattr(SignalStage, "state", lambda self: object() if self.recent.losses else whole(self))
    for _ in range(70):
        loop.step(2.0)
    assert signals(loop) == [("blind", "open", DEFECTS)]


def test_a_timer_that_fails_is_a_defect_of_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = healthy_run()
    monkeypatch.setattr(SilenceStage, "fell_silent", lambda *_: 1 / 0)
    loop.driver.fire_timers(loop.trainer.now() + 3_600_000)
    assert signals(loop) == [("blind", "open", DEFECTS)]


def test_a_reader_without_signals_only_keeps_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowStage, "update", failing_at_poison(WindowStage.update))
    operator = RunOperator("gpt/night", WINDOW_STATS)
    trainer = healthy_run().trainer
    with pytest.raises(RunSetAside) as failed:
        operator.update(topics.TELEMETRY.name, trainer.steps([{LOSS: POISON}]), 0)
    assert failed.value.outputs == []
    assert operator.update(topics.TELEMETRY.name, trainer.steps([{LOSS: POISON}]), 0) == []
