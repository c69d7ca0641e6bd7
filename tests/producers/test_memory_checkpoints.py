"""States that a loop without a Guard keeps and is taken back to."""

from __future__ import annotations

from typing import Any

import pytest

from holter import producers
from holter.producers import Run
from holter.producers.actions import CannotApply
from holter.producers.memory_checkpoints import MemoryCheckpoints
from holter.schemas.bounds import EffectName
from holter.schemas.control import LrFactor, Rollback
from holter.schemas.telemetry import Ack, CheckpointSaved, EffectReport, Parent, Started
from tests.producers.watch import KEYRING, FakeWatch, await_

BOTH: frozenset[EffectName] = frozenset({"rollback", "lr_factor"})


def make_run(watch: FakeWatch, allow: frozenset[EffectName] = BOTH) -> Run:
    run = producers.init(watch.project, watch.run, bus=watch.bus, keyring=KEYRING, allow=allow, environ={})
    run.log({"train/loss": 1.0}, step=0, commit=True)
    return run


def saved(watch: FakeWatch) -> list[CheckpointSaved]:
    return [record.event for record in watch.events(CheckpointSaved) if isinstance(record.event, CheckpointSaved)]


def await_action(run: Run) -> None:
    control = run.control
    assert control is not None
    await_(lambda: control.is_pending and control.is_armed, "latched")


def await_health(run: Run) -> None:
    control = run.control
    assert control is not None
    await_(lambda: control.health is not None, "called healthy")


def go_back(run: Run, checkpoints: MemoryCheckpoints[str], step: int) -> tuple[int, str | None]:
    """As a loop would."""
    state = None
    for action in run.poll_actions():
        with action as a:
            for effect in a.effects:
                assert isinstance(effect, Rollback)
                state = checkpoints.restore(effect)
                a.done(step, effect.step)
                step = effect.step
    return step, state


def test_the_newest_are_kept_and_the_newest_healthy_one() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    checkpoints = MemoryCheckpoints[str](run, every_steps=5, keep=2)
    names = {}
    for step in range(5, 31, 5):
        assert checkpoints.is_due(step)
        assert not checkpoints.is_due(step + 1)
        run.log({"train/loss": 1.0}, step, commit=True)
        checkpoints.keep(step, f"state {step}")
        names[step] = saved_name = f"{run.attempt}-{step:09d}"
        if step == 10:
            watch.health(saved_name, step)
            await_health(run)
    run.finish()
    assert [each.checkpoint for each in saved(watch)] == list(names.values())
    assert [name for each in saved(watch) for name in each.dropped] == [names[step] for step in (5, 15, 20)]
    assert {each.tier for each in saved(watch)} == {"memory"}
    assert checkpoints.restore(Rollback(names[10], 10)) == "state 10"


def test_room_is_made_before_a_state_is() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    checkpoints = MemoryCheckpoints[str](run, every_steps=5, keep=2)
    spare = []
    for step in (5, 10, 15, 20):
        spare.append(checkpoints.make_room())
        checkpoints.keep(step, f"state {step}")
    run.finish()
    assert spare == [None, None, "state 5", "state 10"]
    assert [each.dropped for each in saved(watch)] == [
        [],
        [],
        [saved(watch)[0].checkpoint],
        [saved(watch)[1].checkpoint],
    ]


def test_a_loop_goes_back_in_a_new_attempt() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    first = run.attempt
    checkpoints = MemoryCheckpoints[str](run, every_steps=1, keep=3)
    for step in (1, 2, 3):
        run.log({"train/loss": float(step)}, step, commit=True)
        checkpoints.keep(step, f"state {step}")
    sent = watch.act([Rollback(f"{first}-{1:09d}", 1)])
    await_action(run)
    assert go_back(run, checkpoints, 3) == (1, "state 1")
    run.log({"train/loss": 20.0}, commit=True)
    run.finish()

    (ack,) = watch.acks()
    assert (ack.action, ack.status, ack.action_attempt, ack.step) == (sent.id, "applied", first, 3)
    assert ack.attempt == run.attempt > first
    assert list(ack.effects) == [EffectReport("rollback", 3.0, 1.0)]
    _, again = watch.events(Started)
    assert isinstance(again.event, Started)
    assert (again.event.parent, again.event.allow) == (Parent(first, 1), ["lr_factor", "rollback"])
    assert watch.values("train/loss", run.attempt) == {2: 20.0}


def test_actions_after_a_rollback_reach_the_new_attempt() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    checkpoints = MemoryCheckpoints[str](run)
    checkpoints.keep(0, "state 0")
    watch.act([Rollback(f"{run.attempt}-{0:09d}", 0)])
    await_action(run)
    go_back(run, checkpoints, 0)
    await_(lambda: watch.attempt() == run.attempt, "the new attempt")
    watch.act([LrFactor(0.5)], attempt=run.attempt)
    await_action(run)
    for action in run.poll_actions():
        with action as a:
            a.done(1.0, 0.5)
    run.finish()
    assert [ack.status for ack in watch.acks()] == ["applied", "applied"]


def test_what_is_kept_no_longer_is_refused_and_the_loop_goes_on() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    attempt = run.attempt
    checkpoints = MemoryCheckpoints[str](run)
    watch.act([Rollback("another", 0)])
    await_action(run)
    assert go_back(run, checkpoints, 7) == (7, None)
    run.finish()
    (ack,) = watch.acks()
    assert (ack.status, ack.reason) == ("refused", "checkpoint another is kept no longer")
    assert run.attempt == attempt


def test_states_of_the_line_that_ended_are_dropped() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    checkpoints = MemoryCheckpoints[str](run)
    for step in (1, 2):
        checkpoints.keep(step, f"state {step}")
    checkpoints.restore(Rollback(f"{run.attempt}-{1:09d}", 1))
    with pytest.raises(CannotApply):
        checkpoints.restore(Rollback(f"{run.attempt}-{2:09d}", 2))
    run.finish()


@pytest.mark.parametrize("settings", [{"mode": "disabled", "allow": {"rollback"}}, {"mode": "offline"}])
def test_nothing_is_due_where_nothing_goes_back(settings: dict[str, Any], tmp_path: Any) -> None:
    run = producers.init("tests", environ={}, runs=tmp_path, **settings)
    assert not MemoryCheckpoints[str](run).is_due(25)
    run.finish()


def test_sizes_of_nothing_are_refused() -> None:
    run = producers.init("tests", mode="disabled", environ={})
    with pytest.raises(ValueError, match="at least 1"):
        MemoryCheckpoints[str](run, keep=0)


def test_an_exception_of_cannot_apply_is_no_answer_of_applied() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    watch.act([LrFactor(0.5)])
    await_action(run)
    for action in run.poll_actions():
        with action:
            raise CannotApply("not now")
    run.finish()
    answers: list[Ack] = watch.acks()
    assert [(each.status, each.reason) for each in answers] == [("refused", "not now")]
