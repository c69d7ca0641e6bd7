"""The Trainer of Transformers, with a bus in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers import Trainer, TrainerCallback, TrainingArguments  # noqa: E402

from holter.producers.integrations.huggingface import watch  # noqa: E402
from holter.schemas.control import LrFactor, Stop  # noqa: E402
from holter.schemas.telemetry import Started  # noqa: E402
from tests.producers.torch.loops import ALL, make_run  # noqa: E402
from tests.producers.watch import FakeWatch, await_  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.frameworks]


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, inputs: Any, labels: Any) -> Any:
        return {"loss": (self.layer(inputs) - labels).square().mean()}


class Recorded(TrainerCallback):
    """Learning rates as the trainer has them after each step."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.rates.append(kwargs["optimizer"].param_groups[0]["lr"])


def make_rows(num_rows: int = 64, poisoned: int | None = None) -> list[dict[str, Any]]:
    inputs = torch.randn(num_rows, 4, generator=torch.Generator().manual_seed(1))
    rows = [{"inputs": row, "labels": row.sum().reshape(1)} for row in inputs]
    if poisoned is not None:
        rows[poisoned]["labels"] = torch.tensor([float("nan")])
    return rows


def make_trainer(folder: Path, rows: list[dict[str, Any]], kind: type[Trainer] = Trainer, **settings: Any) -> Trainer:
    fixed: dict[str, Any] = {
        "max_steps": 4, "per_device_train_batch_size": 4, "report_to": "none", "use_cpu": True, "disable_tqdm": True,
        "save_strategy": "no", "logging_strategy": "no", "dataloader_pin_memory": False, "learning_rate": 0.01,
    }  # fmt: skip
    collate = torch.utils.data.default_collate
    arguments = TrainingArguments(str(folder), **{**fixed, **settings})
    trainer = kind(Model(), arguments, data_collator=collate, train_dataset=rows)
    trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(rows)  # type: ignore[method-assign]
    return trainer


def batch_loss(weights: dict[str, Any], rows: list[dict[str, Any]]) -> float:
    model = Model()
    model.load_state_dict(weights)
    return float(model(**torch.utils.data.default_collate(rows))["loss"].detach())


def test_values_are_those_of_each_step_and_not_of_the_log(tmp_path: Path) -> None:
    rows, told = make_rows(), FakeWatch()
    trainer = make_trainer(tmp_path, rows, gradient_accumulation_steps=2, max_grad_norm=0.01)
    first = batch_loss(Model().state_dict(), rows[:4])
    second = batch_loss(Model().state_dict(), rows[4:8])
    watch(trainer, run=make_run(told), allow=ALL, checkpoints=None)
    trainer.train()
    losses, norms = told.values("train/loss"), told.values("train/grad_norm")
    assert list(losses) == [1, 2, 3, 4]
    assert losses[1] == pytest.approx((first + second) / 2, rel=1e-5)
    assert min(norms.values()) > 0.1
    assert told.batches()[0].accumulation == 2
    (started,) = told.events(Started)
    assert started.event.effects == ["lr_factor", "momentum_reset", "nan_guard", "stop"]


def test_a_batch_that_is_not_finite_is_seen_and_changes_nothing(tmp_path: Path) -> None:
    told = FakeWatch()
    trainer = make_trainer(tmp_path, make_rows(poisoned=5))
    watch(trainer, run=make_run(told), checkpoints=None)
    trainer.train()
    losses = list(told.values("train/loss").values())
    assert [loss != loss for loss in losses] == [False, True, False, False]
    assert told.values("train/update_norm")[2] == 0.0
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


def test_a_loss_of_the_users_own_counts(tmp_path: Path) -> None:
    class Halved(Trainer):  # type: ignore[misc]
        def compute_loss(self, model: Any, inputs: Any, **kwargs: Any) -> Any:
            return model(**inputs)["loss"] / 2

    rows, told = make_rows(), FakeWatch()
    trainer = make_trainer(tmp_path, rows, Halved)
    watch(trainer, run=make_run(told), checkpoints=None)
    trainer.train()
    assert told.values("train/loss")[1] == pytest.approx(batch_loss(Model().state_dict(), rows[:4]) / 2, rel=1e-5)


def test_actions_use_the_trainers_scheduler_and_end_its_training(tmp_path: Path) -> None:
    told, recorded = FakeWatch(), Recorded()

    class Sending(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            effects: dict[int, Any] = {2: [LrFactor(0.5)], 5: [Stop()]}
            if state.global_step in effects:
                told.act(effects[state.global_step])
                held = callback.hooks
                assert held is not None
                control_ = held.run.control
                assert control_ is not None
                await_(lambda: control_.is_armed and control_.is_pending, "an action")

    trainer = make_trainer(tmp_path, make_rows(), max_steps=10)
    callback = watch(trainer, run=make_run(told), allow=ALL, checkpoints=None)
    trainer.add_callback(Sending())
    trainer.add_callback(recorded)
    trainer.train()
    assert recorded.rates == pytest.approx([0.009, 0.008, 0.0035, 0.003, 0.0025, 0.002])
    assert trainer.state.global_step == 6
    assert [ack.status for ack in told.acks()] == ["applied", "applied"]


def test_steps_go_on_where_the_trainer_resumed(tmp_path: Path) -> None:
    told = FakeWatch()
    make_trainer(tmp_path, make_rows(), save_strategy="steps", save_steps=2).train()
    trainer = make_trainer(tmp_path, make_rows())
    watch(trainer, run=make_run(told), checkpoints=None)
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert list(told.values("train/loss")) == [3, 4]


def test_wrong_use_is_told_in_one_line(tmp_path: Path) -> None:
    trainer = make_trainer(tmp_path, make_rows())
    with pytest.raises(ValueError, match="give either project="):
        watch(trainer)
    run = make_run(None)
    watch(trainer, run=run, checkpoints=None)
    with pytest.raises(ValueError, match="this trainer is watched already: call watch once"):
        watch(trainer, project="again")
    trainer.train()
    with pytest.raises(ValueError, match="is guarded already"):
        trainer.train()
