"""TensorBoard's real writer and reader, with a bus in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from torch.utils.tensorboard import SummaryWriter  # noqa: E402

from holter.producers.integrations import tensorboard as holter_tensorboard  # noqa: E402
from holter.producers.integrations.event_files import EventFolder  # noqa: E402
from holter.producers.integrations.follow import Followed  # noqa: E402
from holter.producers.integrations.tracked_names import TrackedNames  # noqa: E402
from holter.schemas.control import LrFactor  # noqa: E402
from holter.schemas.topics import SIGNALS  # noqa: E402
from tests.producers.integrations.signals import say  # noqa: E402
from tests.producers.test_actions import latch, make_run  # noqa: E402
from tests.producers.watch import FakeWatch, await_  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.frameworks]


class Beside:
    """A writer and a run, watched."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.told = FakeWatch()
        self.run = make_run(self.told)
        self.writer = SummaryWriter(str(folder))
        holter_tensorboard.watch(self.writer, self.run, **settings)
        self._folder = folder

    def close(self) -> None:
        self.run.finish()
        self.writer.close()

    def scalars(self) -> dict[str, dict[int, float]]:
        """All that the folder holds, by tag and step."""
        accumulator = EventAccumulator(str(self._folder)).Reload()
        tags = accumulator.Tags()["scalars"]
        return {tag: {each.step: each.value for each in accumulator.Scalars(tag)} for tag in tags}

    def sentences(self) -> list[str]:
        accumulator = EventAccumulator(str(self._folder)).Reload()
        return [each.tensor_proto.string_val[0].decode() for each in accumulator.Tensors("holter/alerts/text_summary")]


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    both = Beside(tmp_path)
    yield both
    both.close()


def test_scalars_are_heard_and_stay_as_they_are(beside: Beside) -> None:
    for step in (5, 6):
        beside.writer.add_scalar("Loss/train", torch.tensor(2.0 * step), step)
        beside.writer.add_scalar("grad norm", 0.5, global_step=step)
        beside.writer.add_scalar("acc", 0.25, step, walltime=1.0)
    beside.close()
    assert beside.told.values("train/grad_norm") == {5: 0.5, 6: 0.5}
    assert beside.told.values("acc") == {5: 0.25, 6: 0.25}
    assert beside.told.values("train/loss") == {1: 1.0, 5: 10.0, 6: 12.0}  # 1 is make_run's
    assert beside.scalars() == {
        "Loss/train": {5: 10.0, 6: 12.0}, "grad norm": {5: 0.5, 6: 0.5}, "acc": {5: 0.25, 6: 0.25},
    }  # fmt: skip


def test_what_holter_sees_and_does_stands_at_its_step(beside: Beside) -> None:
    beside.writer.add_scalar("loss", 1.0, 20)
    say(beside.told)
    say(beside.told, phase="update", step=13, severity="critical")
    say(beside.told, phase="close", step=18, p_recover=None)
    beside.told.act([LrFactor(0.5)])
    latch(beside.run)
    for action in beside.run.poll_actions(21):
        with action as a:
            a.done(1.0, 0.5)
    await_(lambda: num_signals(beside) == 3, "three signals")
    beside.close()
    drawn = beside.scalars()
    assert drawn["holter/loss_spike"] == {12: 2.0, 13: 3.0, 18: 0.0}
    assert drawn["holter/loss_spike/p_recover"] == {12: 0.25, 13: 0.25}
    assert drawn["holter/action/lr_factor/after"] == {21: 0.5}
    assert sorted(beside.sentences()) == [
        "**Holter: loss_spike began at step 10**: the loss jumped",
        "**Holter: loss_spike began at step 10**: the loss jumped",
        "**Holter: loss_spike is over at step 18**: the loss jumped",
        "**Holter: lr_factor applied at step 21**: action action-1, 1 of this attempt",
    ]


def num_signals(beside: Beside) -> int:
    beside.writer.flush()
    return len(beside.scalars().get("holter/loss_spike", {}))


def test_signals_of_other_runs_and_what_is_no_signal_are_left_out(beside: Beside) -> None:
    beside.writer.add_scalar("loss", 1.0, 20)
    say(FakeWatch(beside.told.bus, run="another"))
    beside.told.send(SIGNALS, b"no signal")
    say(beside.told)
    await_(lambda: num_signals(beside) == 1, "the run's own signal")
    assert sum(count for kind, count in beside.run.stats().items() if kind.startswith("notice_")) == 1


def test_a_guard_s_own_values_are_not_taken_from_the_tracker(tmp_path: Path) -> None:
    told = FakeWatch()
    run = make_run(told, allow=())
    run.drive(lambda: None)
    run.advance(3)
    writer = SummaryWriter(str(tmp_path))
    holter_tensorboard.watch(writer, run)
    writer.add_scalar("loss", 9.0, 700)
    writer.add_scalar("acc", 0.5, 700)
    run.finish()
    writer.close()
    assert told.values("acc") == {3: 0.5}
    assert told.values("train/loss") == {1: 1.0}


def test_it_is_taken_back_at_the_end_and_not_done_twice(beside: Beside) -> None:
    with pytest.raises(ValueError, match="watches this SummaryWriter already"):
        holter_tensorboard.watch(beside.writer, beside.run)
    beside.run.finish()
    assert "add_scalar" not in vars(beside.writer)
    assert "respond" not in vars(beside.run)


def test_a_folder_is_followed_while_it_is_written_and_over_a_restart(tmp_path: Path) -> None:
    told = FakeWatch()
    run = make_run(told)
    attempts = iter([10**15])
    followed = Followed(run, TrackedNames({"ce": "train/loss"}), lambda: next(attempts))
    folder = EventFolder(tmp_path)
    assert followed.take(folder.new_scalars()) == 0
    write(tmp_path, {10: 1.0, 11: 2.0, 12: float("nan")}, suffix=".1")
    assert followed.take(folder.new_scalars()) == 6
    assert followed.take(folder.new_scalars()) == 0
    write(tmp_path, {11: 4.0, 12: 5.0}, suffix=".2")
    assert followed.take(folder.new_scalars()) == 4
    run.finish()
    first, second = sorted({batch.attempt for batch in told.batches()})
    assert str(told.values("train/loss", first)) == "{1: 1.0, 10: 1.0, 11: 2.0, 12: nan}"
    assert told.values("train/loss", second) == {11: 4.0, 12: 5.0}
    assert told.values("acc", second) == {11: 0.5, 12: 0.5}


def write(folder: Path, losses: dict[int, float], suffix: str) -> None:
    writer = SummaryWriter(str(folder), filename_suffix=suffix)
    for step, loss in losses.items():
        writer.add_scalar("holter/nan", 1.0, step)
        writer.add_scalar("acc", 0.5, step)
        writer.add_scalar("ce", loss, step, new_style=step == 11)
    writer.close()
