"""Holter in a loop of DeepSpeed::

    from holter.producers.integrations.deepspeed import watch
    engine, optimizer, _, scheduler = deepspeed.initialize(…)
    watch(engine, project="my-project", allow={"nan_guard", "lr_factor"})

The loop stays as it is: ``engine.backward(loss)``, ``engine.step()``. A step is one at the boundary of accumulation,
also where the engine skipped it because of an overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from deepspeed import DeepSpeedEngine
from deepspeed.runtime.pipe.engine import PipelineEngine

from holter.producers.integrations.attaching import after_each_call, check_one_given, given_or_new_run
from holter.producers.integrations.reported_steps import EngineScale, ReportedSteps, report_step, without_nan_guard
from holter.producers.run import Run
from holter.producers.torch.hooks import Hooks


def watch(
    engine: DeepSpeedEngine,
    project: str | None = None,
    *,
    run: Run | None = None,
    config: object = None,
    allow: Any = ("nan_guard",),
    **settings: Any,
) -> Hooks:
    """Sees every step of an engine, and applies what it may at the end of ``engine.step()``.

    The loss is that of ``engine.backward``, the gradient norm the engine's, of the whole model before clipping, the
    loss scale that of fp16. Where the engine has neither ZeRO nor fp16 nor bf16 it steps the optimizer that it was
    given: all is then as in :class:`~holter.producers.torch.hooks.Hooks`, checkpoints included. Else the engine keeps
    its own copy of the weights, Holter saves nothing and never goes back, and a step that is not finite is skipped by
    the engine alone.

    Args:
        project: of a new run; or ``run``. ``run.finish()`` gives the engine back.
        settings: of :class:`~holter.producers.torch.hooks.Hooks`.

    Raises:
        ValueError: the engine is watched already, steps itself (``PipelineEngine.train_batch``), or has no optimizer;
            or not exactly one of project and run was given.
    """
    check_one_given(run, project)
    if reason := _objection(engine):
        raise ValueError(reason)
    steps = _Plain(engine) if isinstance(engine.optimizer, torch.optim.Optimizer) else _Reported(engine)
    hooks = steps.hooks(given_or_new_run(run, project, config), allow, settings)
    own_backward = engine.backward

    def backward(loss: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        hooks.add_loss(loss)
        return own_backward(loss, *args, **kwargs)

    engine.backward = backward
    releases = [
        lambda: vars(engine).pop("backward", None),
        after_each_call(engine, "step", lambda _: steps.end(hooks)),
        *steps.listen(hooks),
    ]

    def release(_: Any) -> None:
        for each in releases:
            each()

    after_each_call(hooks.run, "finish", release)
    return hooks


class _Steps:
    """Tells which calls of ``engine.step`` were steps."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._num_steps: int = engine.global_steps

    def hooks(self, run: Run, allow: Any, settings: dict[str, Any]) -> Hooks:
        raise NotImplementedError

    def listen(self, hooks: Hooks) -> list[Callable[[], None]]:
        """Hears what else there is of a step; returns what takes that back."""
        raise NotImplementedError

    def end(self, hooks: Hooks) -> None:
        if self._engine.global_steps == self._num_steps:
            return
        self._num_steps = self._engine.global_steps
        hooks.end_step()

    def _given(self) -> dict[str, Any]:
        return {
            "scheduler": self._engine.lr_scheduler,
            "accumulate": self._engine.gradient_accumulation_steps(),
            "last_step": self._num_steps,
            "boundary": "loop",
        }


class _Plain(_Steps):
    """The engine steps the optimizer that it was given, whose own hooks tell of it."""

    def hooks(self, run: Run, allow: Any, settings: dict[str, Any]) -> Hooks:
        return Hooks(run, self._engine.module, self._engine.optimizer, **self._given(), allow=allow, **settings)

    def listen(self, hooks: Hooks) -> list[Callable[[], None]]:
        own_clip = self._engine.clip_fp32_gradients

        def clip() -> None:
            hooks.see_gradients()
            own_clip()

        self._engine.clip_fp32_gradients = clip
        return [lambda: vars(self._engine).pop("clip_fp32_gradients", None)]


class _Reported(_Steps):
    """The engine's optimizer holds its own copy of the weights, or this rank's part of one."""

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        self._optimizer = ReportedSteps(engine.optimizer)
        self._scale = EngineScale(self._loss_scale) if _skips(engine) else None

    def hooks(self, run: Run, allow: Any, settings: dict[str, Any]) -> Hooks:
        if self._scale is None:
            allow = without_nan_guard(allow, "bf16 with check_grad_overflow off takes every step")
        one_rank = torch.distributed.get_world_size() == 1
        told = {**self._given(), "update_norm": "sampled" if one_rank else "none", **settings, "checkpoints": None}
        return Hooks(
            run, self._engine.module, self._optimizer, scaler=self._scale, grad_norm_scope="global", allow=allow, **told
        )

    def listen(self, hooks: Hooks) -> list[Callable[[], None]]:
        """``engine.step`` goes on to the scheduler, which writes the next step's rate: the step is told before."""
        optimizer = self._engine.optimizer

        def taken(_: Any) -> None:
            norm = getattr(optimizer, "_global_grad_norm", None)
            report_step(hooks, self._optimizer, self._scale, not getattr(optimizer, "overflow", False), norm)

        return [after_each_call(optimizer, "step", taken)]

    def _loss_scale(self) -> Any:
        return self._engine.optimizer.loss_scale if self._engine.fp16_enabled() else None


def _skips(engine: Any) -> bool:
    """Whether a step that is not finite is left out; in bf16 that can be switched off."""
    return not engine.bfloat16_enabled() or getattr(engine.optimizer, "check_grad_overflow", True)


def _objection(engine: Any) -> str:
    if isinstance(engine, PipelineEngine):
        return "PipelineEngine takes its steps inside train_batch: use run.log and run.poll_actions around it"
    if not hasattr(engine.optimizer, "param_groups"):
        return "this engine has no optimizer: give deepspeed.initialize one, or name one in its config"
    return "this engine is watched already: call watch once" if "step" in vars(engine) else ""
