"""A trainer that is killed while an action is applied: the next one says so, and no effect happens twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holter.producers.torch.checkpoint_files import CheckpointFiles
from holter.producers.torch.recovery import checkpoint_folder
from holter.schemas import codec, encode
from holter.schemas.control import Action, Effect, LrFactor, MomentumReset, Rollback
from holter.schemas.telemetry import Started
from holter.schemas.topics import CONTROL
from tests.producers.torch.loops import Training
from tests.producers.torch.several_ranks import DEAD, run_ranks
from tests.producers.torch.test_rollback import checkpoint_at, latch
from tests.producers.watch import ISSUER, FakeWatch

pytestmark = [pytest.mark.torch, pytest.mark.network, pytest.mark.timeout(240)]


def die_before_the_ack(rank: int, num_ranks: int, folder: Path, kind: str) -> None:
    watch = FakeWatch()
    training = Training(folder / "checkpoints", watch)
    training.steps(7)
    recovery = training.guard._recovery
    recovery._saver.wait()  # type: ignore[union-attr]
    in_place: list[Effect] = [LrFactor(0.5), MomentumReset()]
    action = watch.act([Rollback(checkpoint_at(watch, 5), 5), LrFactor(0.5)] if kind == "rollback" else in_place)
    (folder / "action").write_bytes(encode(action))
    latch(training)
    recovery._run.acknowledge = lambda *_, **__: os._exit(9)  # type: ignore[method-assign]
    training.steps(2)


@pytest.mark.parametrize("kind", ["in place", "rollback"])
def test_it_is_interrupted_and_never_happens_twice(tmp_path: Path, kind: str) -> None:
    assert run_ranks(die_before_the_ack, 1, tmp_path, kind) == [DEAD]
    action = codec.control.decode((tmp_path / "action").read_bytes())
    assert isinstance(action, Action)
    watch = FakeWatch()
    watch.send(CONTROL, ISSUER.sign(encode(action)))
    later = Training(tmp_path / "checkpoints", watch, resume=True)
    assert later.guard.last_step == 5
    later.steps(1)
    watch.send(CONTROL, ISSUER.sign(encode(action)))
    later.steps(3)
    later.run.finish()
    (ack,) = watch.acks()
    assert (ack.action, ack.action_attempt, ack.status) == (action.id, action.attempt, "interrupted")
    assert later.guard._recovery._objects.learning_rate.factor == 1.0
    started = watch.events(Started)
    assert [each.attempt > action.attempt for each in started] == [True]
    assert CheckpointFiles(checkpoint_folder(tmp_path / "checkpoints", "run")).manifests()
