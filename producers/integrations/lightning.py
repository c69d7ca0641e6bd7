"""Holter in the ``Trainer`` of Lightning::

    from holter.producers.integrations.lightning import HolterCallback
    trainer = Trainer(callbacks=[HolterCallback(project="my-project", allow={"nan_guard", "rollback", "skip_range"})])

Under automatic and manual optimization; of several optimizers it wears the first. ``trainer.global_step`` counts the
steps that were executed; after a rollback Holter's is lower.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from lightning.pytorch.plugins.precision import Precision
from lightning.pytorch.utilities import rank_zero_only

from holter.producers.integrations.attaching import check_one_given, given_or_new_run
from holter.producers.integrations.scheduler_list import SchedulerList
from holter.producers.notices import logger
from holter.producers.run import Run
from holter.producers.torch.hooks import Hooks, inner_optimizer

_KEY = "holter_last_step"


class HolterCallback(Callback):
    """Sees every optimizer step, and applies at the end of a batch what it was allowed to.

    Args:
        project: each ``fit()`` is a run of its own in it; or ``run``, for one ``fit()``.
        settings: of :class:`~holter.producers.torch.hooks.Hooks`: ``allow``, ``autonomy``, ``checkpoints`` (by default
            ``holter`` in the trainer's ``default_root_dir``), ``checkpoint_every``, ``keep``, ``update_norm``.

    Raises:
        ValueError: not exactly one of project and run was given; at the fit, the trainer has two of these.
    """

    def __init__(self, project: str | None = None, *, run: Run | None = None, **settings: Any) -> None:
        check_one_given(run, project)
        self.hooks: Hooks | None = None
        self._run, self._project = run, project
        self._settings = settings
        self._last_step = 0
        self._optimizer: torch.optim.Optimizer | None = None
        self._clips = self._has_norm = False
        self._release: Callable[[], Any] = lambda: None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if sum(isinstance(each, HolterCallback) for each in trainer.callbacks) > 1:
            raise ValueError("this trainer has a HolterCallback already: one for each fit")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.optimizers:
            logger.warning("Holter sees nothing of this fit: the module has no optimizer")
            return
        run = given_or_new_run(self._run, self._project, dict(pl_module.hparams))
        settings = {"checkpoints": Path(trainer.default_root_dir) / "holter", **self._settings}
        assert trainer.model is not None
        self._optimizer = inner_optimizer(trainer.optimizers[0])
        self.hooks = Hooks(
            run,
            trainer.model,
            self._optimizer,
            scheduler=SchedulerList.of([config.scheduler for config in trainer.lr_scheduler_configs]),
            scaler=getattr(trainer.precision_plugin, "scaler", None),
            accumulate=trainer.accumulate_grad_batches,
            last_step=self._last_step,
            boundary="loop",
            ends_loop=True,
            **settings,
        )
        self._hear_clipping(trainer, pl_module)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: torch.Tensor) -> None:
        """Lightning hands over the loss scaled, and divided by the number of batches of the step."""
        if self.hooks is None:
            return
        scale = getattr(getattr(trainer.precision_plugin, "scaler", None), "_scale", None)
        whole = loss.detach() if scale is None else loss.detach() / scale
        self.hooks.add_loss(whole * trainer.accumulate_grad_batches if pl_module.automatic_optimization else whole)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        """Between backward and clipping; in manual optimization a clipping came before."""
        if self.hooks is None or inner_optimizer(optimizer) is not self._optimizer:
            return
        if not self._has_norm:
            self.hooks.see_gradients()
        self._has_norm = self._clips

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.hooks is None or not self.hooks.is_step_open:
            return
        self.hooks.end_step()
        if self.hooks.is_stopped:
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish("completed")

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._finish("failed", f"{type(exception).__name__}: {exception}")

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """The surviving line's step, for a ``fit(ckpt_path=…)`` of another process. As a ``state_dict`` it would make
        Lightning refuse two of these before :meth:`setup` says so in one line."""
        checkpoint[_KEY] = self._last_step if self.hooks is None else self.hooks.last_step

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self._last_step = int(checkpoint.get(_KEY, 0))

    def _hear_clipping(self, trainer: Trainer, module: LightningModule) -> None:
        """Takes the norm that comes with the clipping, which Lightning drops, instead of measuring it once more."""
        plugin = trainer.precision_plugin
        if type(plugin).clip_grad_by_norm is not Precision.clip_grad_by_norm:
            return

        def clip(optimizer: torch.optim.Optimizer, clip_val: float) -> None:
            norm = torch.nn.utils.clip_grad_norm_(plugin.main_params(optimizer), clip_val)
            if self.hooks is not None and inner_optimizer(optimizer) is self._optimizer:
                self.hooks.see_gradients(norm)
                self._has_norm = True

        plugin.clip_grad_by_norm = clip
        self._release = lambda: vars(plugin).pop("clip_grad_by_norm", None)
        self._clips = self._has_norm = _clips_by_itself(trainer, module)

    def _finish(self, status: str, detail: str = "") -> None:
        hooks, self.hooks = self.hooks, None
        self._release()
        if hooks is not None:
            self._last_step = hooks.last_step
            hooks.run.finish(status, detail)


class HolterLogger(Logger):
    """What modules log by ``self.log`` goes to this run too. With a callback on the run it is told of its step."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._holter_run = run

    @property
    def name(self) -> str:
        return self._holter_run.project

    @property
    def version(self) -> str:
        return self._holter_run.name

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self._holter_run.log(metrics, None if self._holter_run.is_driven else step)

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """A run's configuration is given to ``producers.init``, before its start."""


def _clips_by_itself(trainer: Trainer, module: LightningModule) -> bool:
    """Whether every step of this fit is clipped by its norm, after ``on_before_optimizer_step``."""
    is_own = type(module).configure_gradient_clipping is not LightningModule.configure_gradient_clipping
    by_norm = trainer.gradient_clip_algorithm in (None, "norm")
    return bool(trainer.gradient_clip_val) and by_norm and module.automatic_optimization and not is_own
