"""``holter hold``, ``release``, ``approve``, ``reject``, ``act`` and ``policy``: what a person may say about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from holter.pipeline.cli.order_desk import OrderDesk
from holter.pipeline.cli.policy_file import PolicyFileError, read_policy_file
from holter.pipeline.cli.sending import fail, now_ms, open_desk, order, person_name, send
from holter.pipeline.core.decide.policy import PRESETS
from holter.pipeline.core.decide.written_policy import checked_autonomy, checked_preset, checked_settings
from holter.pipeline.fit.priors import Priors
from holter.schemas import InvalidRecord, run_key
from holter.schemas.commands import Act, Approve, Hold, Policy, Reject, Release
from holter.schemas.control import (
    CheckpointNow,
    ClipAdjust,
    Effect,
    LrFactor,
    MomentumReset,
    Rollback,
    SkipRange,
    Stop,
)
from holter.schemas.decisions import Decision

OrderedEffect = Literal[
    "lr_factor", "momentum_reset", "rollback", "skip_range", "clip_adjust", "stop", "checkpoint_now"
]

RunArgument = Annotated[str, typer.Argument(metavar="PROJECT/RUN", help="The run.", show_default=False)]
DecisionArgument = Annotated[
    str | None,
    typer.Argument(metavar="[DECISION]", help="Its id or the beginning of it; by default the one that waits."),
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; kept with the order.")]
PersonOption = Annotated[
    str | None, typer.Option("--person", help="Who says it. [HOLTER_PERSON, default: the name logged in]")
]
WaitOption = Annotated[float, typer.Option("--wait", min=0.0, help="Seconds to wait for the answer of `watch`.")]


def hold(run: RunArgument, reason: ReasonOption = "", person: PersonOption = None, wait: WaitOption = 10.0) -> None:
    """Let nothing be applied to a run until it is released; `watch` and the trainer both keep to it.

    Ends with 0 when it was carried out, with 1 when it was refused, came too late or was not answered.

    Example: holter hold gpt-small/night --reason "debugging the loader"
    """
    project, name = _project_and_run(run)
    order(Hold(project, name, person_name(person), now_ms(), reason), wait)


def release(run: RunArgument, reason: ReasonOption = "", person: PersonOption = None, wait: WaitOption = 10.0) -> None:
    """End a hold.

    Example: holter release gpt-small/night
    """
    project, name = _project_and_run(run)
    order(Release(project, name, person_name(person), now_ms(), reason), wait)


def approve(
    run: RunArgument,
    decision: DecisionArgument = None,
    reason: ReasonOption = "",
    person: PersonOption = None,
    wait: WaitOption = 10.0,
) -> None:
    """Let a proposed action be applied. It is shown first, and signed by its digest: no other one is applied.

    `watch` checks again that the incident is still open, and answers that it is stale otherwise.

    Example: holter approve gpt-small/night 3f2a91c0
    """
    project, name = _project_and_run(run)
    with open_desk() as desk:
        found = _proposal(desk, project, name, decision)
        _show(found)
        send(desk, Approve(project, name, found.id, found.digest, person_name(person), now_ms(), reason), wait)


def reject(
    run: RunArgument,
    decision: DecisionArgument = None,
    reason: ReasonOption = "",
    person: PersonOption = None,
    wait: WaitOption = 10.0,
) -> None:
    """Do not let a proposed action be applied; it is not proposed again for the same incident.

    Example: holter reject gpt-small/night 3f2a91c0 --reason "known bad shard"
    """
    project, name = _project_and_run(run)
    with open_desk() as desk:
        found = _proposal(desk, project, name, decision)
        _show(found)
        send(desk, Reject(project, name, found.id, person_name(person), now_ms(), reason), wait)


def act(
    run: RunArgument,
    effect: Annotated[OrderedEffect, typer.Argument(show_default=False)],
    factor: Annotated[
        float | None, typer.Option("--factor", help="lr_factor: from .1 to 1 of what is configured; clip_adjust: to 1.")
    ] = None,
    ramp_steps: Annotated[
        int, typer.Option("--ramp-steps", min=0, help="Steps over which a factor goes back to 1; 0 keeps it.")
    ] = 0,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="rollback: its name; by default the newest healthy one.")
    ] = None,
    step: Annotated[int | None, typer.Option("--step", min=0, help="rollback: the step of --checkpoint.")] = None,
    from_step: Annotated[
        int | None, typer.Option("--from-step", min=0, help="skip_range, rollback: skip the data of later steps.")
    ] = None,
    reason: ReasonOption = "",
    person: PersonOption = None,
    wait: WaitOption = 10.0,
) -> None:
    """Order an action at once. It takes the place of one of `watch` that is not applied yet.

    Only what the run allows can be ordered, and nothing while it is on hold.

    Example: holter act gpt-small/night lr_factor --factor .5 --ramp-steps 200
    """
    project, name = _project_and_run(run)
    effects = _effects(effect, factor, ramp_steps, checkpoint, step, from_step)
    order(Act(project, name, effects, person_name(person), now_ms(), reason), wait)


def policy(
    run: RunArgument,
    preset: Annotated[str | None, typer.Option("--preset", help=f"{', '.join(PRESETS)}.", show_default=False)] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="POLICY.toml", help="A policy as a file.")] = None,
    autonomy: Annotated[
        list[str] | None,
        typer.Option("--autonomy", metavar="EFFECT=MODE", help="How far an effect may go: shadow, approve or auto."),
    ] = None,
    numbers: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=NUMBER", help="Such as safety.cooldown_steps=80.")
    ] = None,
    priors: Annotated[
        Path | None,
        typer.Option("--priors", metavar="PRIORS.json", help="What helped on other runs, as `holter fit` writes it."),
    ] = None,
    reason: ReasonOption = "",
    person: PersonOption = None,
    wait: WaitOption = 10.0,
) -> None:
    """Change how a run is treated, from its next record on. What is left out stays as it is.

    Example: holter policy gpt-small/night --preset expected-cost --autonomy rollback=approve
    """
    project, name = _project_and_run(run)
    try:
        read = read_policy_file(file) if file is not None else None
        chosen = checked_preset(preset) or (read.preset if read else None)
        modes = {**(read.autonomy if read else {}), **checked_autonomy(dict(map(_pair, autonomy or ())))}
        settings = {**(read.settings if read else {}), **checked_settings(dict(map(_number_pair, numbers or ())))}
    except PolicyFileError as error:
        raise typer.BadParameter(str(error), param_hint="--file") from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    known = {} if priors is None else _priors(priors)
    if chosen is None and not (modes or settings or known):
        raise typer.BadParameter("say what is to change: --preset, --file, --autonomy, --set or --priors")
    order(Policy(project, name, person_name(person), now_ms(), chosen, modes, settings, reason, known), wait)


def _proposal(at: OrderDesk, project: str, run: str, wanted: str | None) -> Decision:
    waiting = at.waiting(project, run)
    found = [decision for decision in waiting if decision.id.startswith(wanted or "")]
    if not found:
        known = f"; {waiting[-1].id[:8]} does" if waiting else ""
        fail(f"{f'no decision {wanted}' if wanted else 'nothing'} of {project}/{run} waits for approval{known}")
    return found[-1]


def _show(decision: Decision) -> None:
    console = Console(stderr=True)
    said = f"{decision.choice} at step {decision.step} ({decision.id[:8]}): {decision.reason}"
    console.print(said, markup=False, highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("option", "costs", ""):
        table.add_column(heading, justify="right" if heading == "costs" else "left", overflow="fold")
    for option in decision.options:
        cost = "" if option.cost_seconds is None else f"{option.cost_seconds:.1f} s"
        table.add_row(option.name, cost, option.note, style=None if option.available else "dim")
    console.print(table)


def _effects(
    effect: OrderedEffect,
    factor: float | None,
    ramp_steps: int,
    checkpoint: str | None,
    step: int | None,
    from_step: int | None,
) -> list[Effect]:
    if effect in ("lr_factor", "clip_adjust"):
        if factor is None:
            raise typer.BadParameter(f"{effect} needs --factor")
        return [LrFactor(factor, ramp_steps) if effect == "lr_factor" else ClipAdjust(factor, ramp_steps)]
    if effect == "rollback":
        if (checkpoint is None) != (step is None):
            raise typer.BadParameter("--checkpoint and --step go together; without them it is the newest healthy one")
        back = Rollback(checkpoint or "", step or 0)
        return [back] if from_step is None else [back, SkipRange(from_step)]
    if effect == "skip_range":
        if from_step is None:
            raise typer.BadParameter("skip_range needs --from-step")
        return [SkipRange(from_step)]
    plain: dict[str, Effect] = {"momentum_reset": MomentumReset(), "stop": Stop(), "checkpoint_now": CheckpointNow()}
    return [plain[effect]]


def _priors(path: Path) -> Priors:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Priors)
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--priors") from None
    except msgspec.MsgspecError as error:
        raise typer.BadParameter(f"{path} is no file of `holter fit`: {error}", param_hint="--priors") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()


def _number_pair(text: str) -> tuple[str, float]:
    name, value = _pair(text)
    try:
        return name, float(value)
    except ValueError:
        raise ValueError(f"{name} is {value!r}, it must be a number") from None


def _project_and_run(text: str) -> tuple[str, str]:
    project, _, run = text.partition("/")
    try:
        run_key(project, run)
    except InvalidRecord:
        raise typer.BadParameter(f"{text!r} is not PROJECT/RUN, such as gpt-small/night") from None
    return project, run
