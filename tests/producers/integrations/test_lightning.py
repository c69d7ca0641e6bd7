"""The Trainer of Lightning, with a bus in memory."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from lightning.pytorch import LightningModule, Trainer  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from holter.producers.integrations.lightning import HolterCallback, HolterLogger  # noqa: E402
from holter.schemas.telemetry import Finished, Started  # noqa: E402
from tests.producers.torch.loops import ALL, make_run  # noqa: E402
from tests.producers.watch import FakeWatch  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]
INPUTS = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))


class Module(LightningModule):
    """``losses`` and ``norms`` are what a step really had."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 1)
        self.losses: list[float] = []
        self.norms: list[float] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        (inputs,) = batch
        loss = (self.layer(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        self.losses.append(loss.item())
        self.log("train/own", loss * 2)
        return loss

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.norms.append(float(torch.linalg.vector_norm(torch.cat([w.grad.flatten() for w in self.parameters()]))))

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=0.01)


class Manual(Module):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        loss = super().training_step(batch, batch_idx)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()


def fit(
    folder: Path, module: Module, callback: HolterCallback, checkpoint: Path | None = None, **settings: Any
) -> Trainer:
    warnings.simplefilter("ignore")
    fixed: dict[str, Any] = {
        "max_steps": 4, "accelerator": "cpu", "logger": False, "enable_checkpointing": False,
        "enable_progress_bar": False, "enable_model_summary": False, "default_root_dir": folder,
    }  # fmt: skip
    trainer = Trainer(**{**fixed, "callbacks": [callback], **settings})
    trainer.fit(module, DataLoader(TensorDataset(INPUTS), batch_size=4), ckpt_path=checkpoint)
    return trainer


@pytest.mark.parametrize("kind", [Module, Manual])
def test_values_are_those_of_each_step(tmp_path: Path, kind: type[Module]) -> None:
    told, module = FakeWatch(), kind()
    fit(tmp_path, module, HolterCallback(run=make_run(told), allow=ALL, checkpoints=None))
    assert list(told.values("train/loss")) == [1, 2, 3, 4]
    assert list(told.values("train/loss").values()) == pytest.approx(module.losses, rel=1e-5)
    assert list(told.values("train/grad_norm").values()) == pytest.approx(module.norms, rel=1e-5)
    assert told.events(Finished)[0].event.status == "completed"
    (started,) = told.events(Started)
    assert started.event.effects == ["momentum_reset", "nan_guard", "stop"]


def test_accumulated_batches_are_one_step_and_clipping_hides_nothing(tmp_path: Path) -> None:
    told, module = FakeWatch(), Module()
    callback = HolterCallback(run=make_run(told), checkpoints=None)
    fit(tmp_path, module, callback, accumulate_grad_batches=2, gradient_clip_val=0.01)
    means = [(one + two) / 2 for one, two in zip(module.losses[::2], module.losses[1::2], strict=True)]
    assert list(told.values("train/loss").values()) == pytest.approx(means, rel=1e-5)
    assert list(told.values("train/grad_norm").values()) == pytest.approx(module.norms, rel=1e-5)
    assert min(module.norms) > 0.1


class ClippingManual(Manual):
    def manual_backward(self, loss: Any, *args: Any, **kwargs: Any) -> None:
        super().manual_backward(loss, *args, **kwargs)
        Module.on_before_optimizer_step(self, None)
        self.clip_gradients(self.optimizers(), 0.01, "norm")

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        """It was clipped by now."""


class OwnClipping(Module):
    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        torch.nn.utils.clip_grad_value_(self.parameters(), 0.01)


@pytest.mark.parametrize(("kind", "clip"), [(ClippingManual, None), (OwnClipping, 0.01), (Module, 0.01)])
def test_the_norm_is_that_of_before_the_clipping_whoever_clips(
    tmp_path: Path, kind: type[Module], clip: float | None
) -> None:
    told, module = FakeWatch(), kind()
    callback = HolterCallback(run=make_run(told), checkpoints=None)
    trainer = fit(tmp_path, module, callback, gradient_clip_val=clip)
    assert list(told.values("train/grad_norm").values()) == pytest.approx(module.norms, rel=1e-5)
    assert min(module.norms) > 0.1
    assert "clip_grad_by_norm" not in vars(trainer.precision_plugin)


def test_a_batch_that_is_not_finite_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, module = FakeWatch(), Module()
    poisoned = INPUTS.clone()
    poisoned[5] = torch.nan
    monkeypatch.setitem(globals(), "INPUTS", poisoned)
    fit(tmp_path, module, HolterCallback(run=make_run(told), checkpoints=None))
    assert told.values("train/update_norm")[2] == 0.0
    assert all(weight.isfinite().all() for weight in module.parameters())


def test_what_modules_log_goes_to_the_step_in_progress_when_lightning_hands_it_over(tmp_path: Path) -> None:
    told, module = FakeWatch(), Module()
    run = make_run(told)
    fit(tmp_path, module, HolterCallback(run=run, checkpoints=None), logger=HolterLogger(run), log_every_n_steps=1)
    own = told.values("train/own")
    assert own
    assert {step: value / 2 for step, value in own.items()} == pytest.approx(
        {step: told.values("train/loss")[step - 1] for step in own}, rel=1e-5
    )


def test_steps_go_on_where_the_trainer_resumed(tmp_path: Path) -> None:
    trainer = fit(tmp_path, Module(), HolterCallback(run=make_run(None), checkpoints=None), max_steps=2)
    trainer.save_checkpoint(tmp_path / "two.ckpt")
    told = FakeWatch()
    fit(tmp_path, Module(), HolterCallback(run=make_run(told), checkpoints=None), tmp_path / "two.ckpt")
    assert list(told.values("train/loss")) == [3, 4]


def test_an_exception_finishes_the_run_as_failed(tmp_path: Path) -> None:
    class Failing(Module):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if batch_idx == 2:
                raise RuntimeError("no more")
            return super().training_step(batch, batch_idx)

    told = FakeWatch()
    with pytest.raises(RuntimeError):
        fit(tmp_path, Failing(), HolterCallback(run=make_run(told), checkpoints=None))
    assert told.events(Finished)[0].event.status == "failed"
    assert list(told.values("train/loss")) == [1, 2]


def test_wrong_use_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give either project="):
        HolterCallback()
    callbacks = [HolterCallback(run=make_run(None), checkpoints=None) for _ in range(2)]
    with pytest.raises(ValueError, match=r"^this trainer has a HolterCallback already: one for each fit$"):
        fit(tmp_path, Module(), callbacks[0], callbacks=callbacks)
