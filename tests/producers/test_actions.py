"""Actions in a loop without a Guard: polled, applied, answered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holter import producers
from holter.producers import Run
from holter.producers.actions import PendingAction
from holter.schemas.control import LrFactor, Rollback, Stop
from holter.schemas.telemetry import Ack, EffectReport, Started
from tests.producers.watch import KEYRING, FakeWatch, await_


def make_run(watch: FakeWatch, **settings: Any) -> Run:
    settings = {"allow": {"lr_factor", "stop"}, "environ": {}, **settings}
    run = producers.init(watch.project, watch.run, bus=watch.bus, keyring=KEYRING, **settings)
    run.log({"train/loss": 1.0}, step=1)
    return run


def latch(run: Run) -> None:
    control = run.control
    assert control is not None
    await_(lambda: control.is_pending and control.is_armed, "latched")


def answer(watch: FakeWatch, run: Run) -> Ack:
    run.finish()
    (ack,) = watch.acks()
    return ack


def test_what_a_loop_applies_is_said_at_its_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    watch = FakeWatch()
    run = make_run(watch, autonomy={"stop": "approve"})
    run.finish()
    (said,) = watch.events(Started)
    assert isinstance(said.event, Started)
    assert (said.event.effects, said.event.allow) == (["lr_factor", "stop"], ["lr_factor", "stop"])
    assert said.event.autonomy == {"stop": "approve"}
    assert "Holter sees what this run is given by log; it can apply lr_factor, stop" in caplog.text


def test_an_action_is_applied_and_acknowledged_with_its_values(caplog: pytest.LogCaptureFixture) -> None:
    watch = FakeWatch()
    run = make_run(watch)
    assert not list(run.poll_actions())
    sent = watch.act([LrFactor(0.5)])
    latch(run)
    run.log({"train/loss": 1.0}, step=7)
    for action in run.poll_actions():
        with action as a:
            assert a.effects == (LrFactor(0.5),)
            a.done(1.0, 0.5)
    assert not list(run.poll_actions())
    ack = answer(watch, run)
    assert (ack.action, ack.status, ack.step) == (sent.id, "applied", 7)
    assert list(ack.effects) == [EffectReport("lr_factor", 1.0, 0.5)]
    assert ack.digest
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.partition(" (")[0] for line in told] == ["Holter applied at step 7: lr_factor"]


def test_values_of_several_effects_are_given_by_name() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    watch.act([LrFactor(0.5), Stop()])
    latch(run)
    for action in run.poll_actions(3):
        with action as a:
            with pytest.raises(ValueError, match="the action has no clip_adjust; it has lr_factor, stop"):
                a.done(clip_adjust=(1.0, 2.0))
            a.done(lr_factor=(1.0, 0.5))
            with pytest.raises(ValueError, match="answered already"):
                a.done()
    ack = answer(watch, run)
    assert list(ack.effects) == [EffectReport("lr_factor", 1.0, 0.5), EffectReport("stop")]


def leave(action: PendingAction) -> None:
    with action:
        pass


def never_enter(action: PendingAction) -> None:
    assert action.names == ("lr_factor",)


@pytest.mark.parametrize(("use", "reason"), [(leave, "without done()"), (never_enter, "did not take it up")])
def test_what_is_not_done_is_refused(use: Any, reason: str) -> None:
    watch = FakeWatch()
    run = make_run(watch)
    watch.act([LrFactor(0.5)])
    latch(run)
    for action in run.poll_actions():
        use(action)
    ack = answer(watch, run)
    assert ack.status == "refused"
    assert reason in ack.reason
    assert not ack.effects


def apply_badly(run: Run) -> None:
    for action in run.poll_actions():
        with action:
            raise KeyError("lr")


def test_an_error_of_the_loop_is_its_own_and_told() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    watch.act([LrFactor(0.5)])
    latch(run)
    with pytest.raises(KeyError):
        apply_badly(run)
    ack = answer(watch, run)
    assert (ack.status, ack.reason) == ("refused", "the loop raised KeyError: 'lr'")


def test_what_the_loop_cannot_apply_never_reaches_it() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    watch.act([Rollback("step-0", 0)])
    await_(watch.acks, "an answer")
    assert not list(run.poll_actions())
    assert "cannot apply rollback" in answer(watch, run).reason


def test_a_step_that_is_none_polls_nothing() -> None:
    watch = FakeWatch()
    run = make_run(watch)
    watch.act([LrFactor(0.5)])
    latch(run)
    assert not list(run.poll_actions(-1))
    assert len(list(run.poll_actions(1))) == 1
    run.finish()
    assert run.stats()["notice_bad_step"] == 1


@pytest.mark.parametrize("name", ["skip_range", "nan_guard", "explode"])
def test_effects_that_a_loop_cannot_have_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=f"'{name}' cannot be allowed to a loop without a Guard"):
        producers.init("tests", mode="disabled", allow={name}, environ={})


def test_several_ranks_apply_nothing(caplog: pytest.LogCaptureFixture) -> None:
    watch = FakeWatch()
    run = make_run(watch, environ={"RANK": "0", "WORLD_SIZE": "2"})
    run.finish()
    (said,) = watch.events(Started)
    assert isinstance(said.event, Started)
    assert said.event.effects == []
    assert run.control is None
    assert "2 ranks could not agree" in caplog.text


def test_a_guard_is_told_itself() -> None:
    run = producers.init("tests", mode="disabled", allow={"stop"}, environ={})
    with pytest.raises(ValueError, match="leave allow= out of init"):
        run.drive(lambda: None)


WITHOUT_TORCH = """
import sys
from holter.producers.examples import plain_python
plain_python.MAX_STEPS = 40
plain_python.main("lr-burst")
assert "torch" not in sys.modules
"""


def test_the_example_runs_without_torch_and_is_short(tmp_path: Path) -> None:
    environ = {"HOLTER_MODE": "disabled", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False, cwd=tmp_path, env=environ
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("40 steps, loss ")
    example = Path(producers.__file__).parent / "examples" / "plain_python.py"
    assert len(example.read_text().splitlines()) < 60
