"""Holter in a loop of Megatron-Core::

    from holter.producers.integrations.megatron import watch
    hooks = watch(model, optimizer, opt_param_scheduler, project="my-project", allow={"rollback", "lr_factor"})
    …
    hooks.add_loss(loss)                              # before optimizer.step()
    update_successful, grad_norm, _ = optimizer.step()

Steps, gradient norm and skipped steps are what ``MegatronOptimizer.step`` returns; nothing of Megatron is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from holter.producers.integrations.attaching import after_each_call, check_one_given, given_or_new_run
from holter.producers.integrations.megatron_state import MegatronState, RewoundScheduler, parts_of, why_unknown
from holter.producers.integrations.reported_steps import (
    EngineScale,
    ReportedSteps,
    report_step,
    without,
    without_nan_guard,
)
from holter.producers.run import Run
from holter.producers.torch.hooks import Hooks
from holter.schemas.bounds import EffectName

_INTERFACE = ("step", "get_loss_scale", "get_grad_norm", "param_groups")
_NEED_CHECKPOINTS: frozenset[EffectName] = frozenset({"rollback", "skip_range", "checkpoint_now"})


def watch(
    model: torch.nn.Module | Sequence[torch.nn.Module],
    optimizer: Any,
    scheduler: Any | None = None,
    project: str | None = None,
    *,
    run: Run | None = None,
    config: object = None,
    allow: Any = ("nan_guard",),
    **settings: Any,
) -> Hooks:
    """Sees every step of a ``MegatronOptimizer``, and applies what it may at the end of it.

    The gradient norm is that of the whole model before clipping, as Megatron adds it up over its groups of ranks; of
    a step that was skipped it is infinite. A step that is not finite is skipped by Megatron's own gradient scaler;
    without one every step is taken. Where ``allow`` has an effect that needs checkpoints, every rank saves its own part
    of model, optimizer, scaler and scheduler, beside Megatron's own checkpoints. What :func:`why_unknown` names has no
    such part: what needs it is refused in a line at the start.

    Args:
        model: of this rank, or its chunks.
        scheduler: Megatron's ``OptimizerParamScheduler``; without it ``lr_factor`` cannot be applied.
        project: of a new run; or ``run``. ``run.finish()`` gives the optimizer back.
        settings: of :class:`~holter.producers.torch.hooks.Hooks`.

    Raises:
        ValueError: the optimizer is watched already, or is none of Megatron's; or not exactly one of project and run
            was given.
    """
    check_one_given(run, project)
    if reason := _objection(optimizer):
        raise ValueError(reason)
    scale = EngineScale(optimizer.get_loss_scale) if _skips(optimizer) else None
    if scale is None:
        allow = without_nan_guard(allow, "without a gradient scaler Megatron takes every step")
    if reason := why_unknown(optimizer):
        allow = without(_NEED_CHECKPOINTS, allow, reason)
    whole = model if isinstance(model, torch.nn.Module) else torch.nn.ModuleList(model)
    reported = ReportedSteps(optimizer, MegatronState(optimizer, whole))
    hooks = Hooks(
        given_or_new_run(run, project, config),
        whole,
        reported,
        scheduler=RewoundScheduler(scheduler) if hasattr(scheduler, "num_steps") else scheduler,
        scaler=scale,
        grad_norm_scope="global",
        allow=allow,
        **_told(settings, frozenset(allow)),
    )

    def hear(returned: tuple[bool, Any, Any]) -> None:
        applied, norm, _ = returned
        if applied and norm is None:  # it clips nothing
            norm = optimizer.get_grad_norm()
        report_step(hooks, reported, scale, bool(applied), norm)

    release = after_each_call(optimizer, "step", hear)
    after_each_call(hooks.run, "finish", lambda _: release())
    return hooks


def _told(settings: dict[str, Any], allow: frozenset[EffectName]) -> dict[str, Any]:
    """What is saved costs a copy of all this: nothing is, where it is of no use."""
    told = {"update_norm": "sampled" if _is_alone() else "none", **settings}
    return told if allow & _NEED_CHECKPOINTS else {**told, "checkpoints": None}


def _skips(optimizer: Any) -> bool:
    """Of a chained optimizer the parts share one scaler."""
    return any(getattr(part, "grad_scaler", None) is not None for part in parts_of(optimizer))


def _is_alone() -> bool:
    return not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1


def _objection(optimizer: Any) -> str:
    if lacking := [name for name in _INTERFACE if not hasattr(optimizer, name)]:
        return f"{type(optimizer).__name__} is no MegatronOptimizer: it has no {lacking[0]}; for others there is Hooks"
    return "this optimizer is watched already: call watch once" if "step" in vars(optimizer) else ""
