"""Holter in a loop of Accelerate::

    from holter.producers.integrations.accelerate import watch
    watch(accelerator, model, optimizer, project="my-project")  # after accelerator.prepare

and, as one of ``Accelerator(log_with=[…])``, the tracker that hears what the loop logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker

from holter.producers.integrations.attaching import after_each_call, check_one_given, given_or_new_run, inner_scheduler
from holter.producers.run import Run
from holter.producers.torch.hooks import Hooks


def watch(
    accelerator: Accelerator,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: Any | None = None,
    project: str | None = None,
    *,
    run: Run | None = None,
    config: object = None,
    **settings: Any,
) -> Hooks:
    """Sees every step of a prepared optimizer, and applies what it may at the end of it.

    The loss is that of ``accelerator.backward``, the gradient norm the one that ``accelerator.clip_grad_norm_``
    computes, where the loop clips.

    Args:
        scheduler: of the loop, prepared or not; without it ``lr_factor`` cannot be applied.
        project: of a new run; or ``run``. ``accelerator.end_training()`` finishes it, else the end of the process.
        settings: of :class:`~holter.producers.torch.hooks.Hooks`.

    Raises:
        ValueError: the optimizer is guarded already, or not exactly one of project and run was given.
    """
    check_one_given(run, project)
    hooks = Hooks(
        given_or_new_run(run, project, config),
        model,
        optimizer,
        scheduler=inner_scheduler(scheduler),
        scaler=accelerator.scaler,
        accumulate=accelerator.gradient_accumulation_steps,
        **settings,
    )
    after_each_call(accelerator, "clip_grad_norm_", hooks.see_gradients)
    after_each_call(accelerator, "end_training", lambda _: hooks.run.finish())
    _hear_losses(accelerator, hooks)
    return hooks


class HolterTracker(GeneralTracker):
    """What the loop logs by ``accelerator.log`` goes to this run too, as values of the step in progress."""

    name = "holter"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    @property
    def tracker(self) -> Run:
        return self._run

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """A run's configuration is given to ``producers.init``, before its start."""

    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        numbers = {name: value for name, value in values.items() if not isinstance(value, (str, bytes))}
        self._run.log(numbers, None if self._run.is_driven else step)

    def finish(self) -> None:
        self._run.finish()


def _hear_losses(accelerator: Accelerator, hooks: Hooks) -> None:
    own = accelerator.backward

    def backward(loss: torch.Tensor, **kwargs: Any) -> None:
        hooks.add_loss(loss)
        own(loss, **kwargs)

    accelerator.backward = backward
