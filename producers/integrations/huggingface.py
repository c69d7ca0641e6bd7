"""Holter in the ``Trainer`` of Transformers::

    from holter.producers.integrations.huggingface import watch
    watch(trainer, project="my-project", allow={"nan_guard", "lr_factor", "rollback", "skip_range"})
    trainer.train()

Loss and gradient norm are those of each optimizer step: the loss that ``training_step`` returned, summed over the
micro-batches that share it, and the norm of before the clipping; ``logging_steps`` and ``logging_nan_inf_filter``
change nothing. ``state.global_step`` counts the steps that were executed; after a rollback Holter's is lower.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holter.producers.integrations.attaching import after_each_call, check_one_given, given_or_new_run, inner_scheduler
from holter.producers.run import Run
from holter.producers.torch.hooks import Hooks


class HolterCallback(TrainerCallback):
    """Added by :func:`watch`. :attr:`hooks` is there from the beginning of ``train`` to its end."""

    def __init__(self, trainer: Trainer, run: Run | None, project: str | None, settings: dict[str, Any]) -> None:
        self.hooks: Hooks | None = None
        self._trainer = trainer
        self._run, self._project = run, project
        self._settings = settings
        self._loss: torch.Tensor | None = None
        self._releases: list[Callable[[], None]] = []

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        trainer = self._trainer
        run = given_or_new_run(self._run, self._project, args.to_dict())
        settings = {"checkpoints": Path(args.output_dir) / "holter", **self._settings}
        self.hooks = Hooks(
            run,
            trainer.model_wrapped,
            trainer.optimizer,
            scheduler=inner_scheduler(trainer.lr_scheduler),
            scaler=trainer.accelerator.scaler,
            accumulate=args.gradient_accumulation_steps,
            last_step=state.global_step,
            boundary="loop",
            ends_loop=True,
            **settings,
        )
        self._releases = [
            after_each_call(trainer, "training_step", self._hear_loss),
            after_each_call(trainer.accelerator, "clip_grad_norm_", self.hooks.see_gradients),
        ]

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.hooks is not None and self._loss is not None:
            self.hooks.add_loss(self._loss)
        self._loss = None

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.hooks is None:
            return
        self.hooks.end_step()
        if self.hooks.is_stopped:
            control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        for release in self._releases:
            release()
        if self.hooks is not None:
            self.hooks.run.finish()
        self.hooks, self._releases = None, []

    def _hear_loss(self, loss: torch.Tensor) -> None:
        """Each micro-batch's is its share of the step's."""
        self._loss = loss if self._loss is None else self._loss.detach() + loss.detach()


def watch(trainer: Trainer, project: str | None = None, *, run: Run | None = None, **settings: Any) -> HolterCallback:
    """Wears Holter in each ``trainer.train()``.

    Args:
        project: each ``train()`` is a run of its own in it; or ``run``, for one ``train()``.
        settings: of :class:`~holter.producers.torch.hooks.Hooks`: ``allow``, ``autonomy``, ``checkpoints`` (by default
            ``holter`` in the trainer's ``output_dir``), ``checkpoint_every``, ``keep``, ``update_norm``.

    Raises:
        ValueError: the trainer is watched already, or not exactly one of project and run was given.
    """
    check_one_given(run, project)
    if any(isinstance(callback, HolterCallback) for callback in trainer.callback_handler.callbacks):
        raise ValueError("this trainer is watched already: call watch once")
    callback = HolterCallback(trainer, run, project, settings)
    trainer.add_callback(callback)
    return callback
