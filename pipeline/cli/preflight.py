"""``holter preflight``: what of a training job is known to make it unstable, before it begins."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holter.pipeline.replay.wording import counted

if TYPE_CHECKING:
    from holter.producers.torch.preflight import Finding, Report, Subject

SERIOUS, UNUSABLE = 1, 2
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "cyan", "fine": "green", "not_checked": "dim"}
_TITLES = {"fine": "ok", "not_checked": "not checked"}


class Unusable(Exception):
    """What was named cannot be examined."""


def preflight(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="Also FILE.py:FUNCTION.", show_default=False)
    ],
    clip: Annotated[
        float | None, typer.Option(min=0.0, help="The largest gradient norm; 0 where nothing is clipped.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimizer steps that are planned.")] = None,
    ranks: Annotated[
        str | None, typer.Option(metavar="tensor|data", help="Call it as rank 0 and 1 too, and compare their seeds.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Look at a training job before it begins: what is known to make training unstable.

    FUNCTION takes nothing and returns the model, or a tuple of model, optimizer,
    scheduler, GradScaler and batch in any order, or a dict with model and any of
    optimizer, scheduler, scaler, batch, loss, clip, steps, warmup, precision.

    Example, with this in train.py:

        def job():
            model = GPT(config)
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
            return model, optimizer, next(iter(loader))

    holter preflight train:job --clip 1.0 --steps 20000

    With --ranks tensor every matrix of the model is taken for a rank's part; a
    function that takes `rank` is given it, and RANK is set.

    Exit codes: 0 nothing serious, 1 something serious, 2 wrong usage.
    """
    try:
        report = _examine(target, clip, steps, _parallelism(ranks))
    except Unusable as error:
        typer.echo(f"holter preflight: {error}", err=True)
        raise typer.Exit(UNUSABLE) from None
    if as_json:
        typer.echo(json.dumps(finite(report.as_dict()), allow_nan=False))
    else:
        print_report(Console(), report)
    if report.num_serious:
        raise typer.Exit(SERIOUS)


def _examine(
    target: str, clip: float | None, steps: int | None, parallelism: Literal["tensor", "data"] | None
) -> Report:
    if importlib.util.find_spec("torch") is None:
        raise Unusable("it needs PyTorch, which is not installed: pip install 'holter[torch]'")
    from holter.producers.torch.preflight import examine, rehearse

    build = load(target)
    try:
        subject = rehearse(build, parallelism)
    except ValueError as error:
        raise Unusable(f"{target}: {error}") from error
    except Exception as error:  # whatever a stranger's function raises
        raise Unusable(f"{target} raised {type(error).__name__}: {error}") from error
    return examine(_completed(subject, clip, steps))


def _completed(subject: Subject, clip: float | None, steps: int | None) -> Subject:
    """With what the command line says besides."""
    from dataclasses import replace

    return replace(
        subject, clip=subject.clip if clip is None else clip, steps=subject.steps if steps is None else steps
    )


def load(target: str) -> Callable[..., Any]:
    """The function of ``package.module:function`` or ``path/file.py:function``.

    Raises:
        Unusable: there is none.
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise Unusable(f"{target!r} is not MODULE:FUNCTION, such as train:job")
    sys.path.insert(0, str(Path(place).parent if place.endswith(".py") else Path.cwd()))
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:  # whatever a stranger's module raises
        raise Unusable(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        del sys.path[0]
    function = getattr(module, name, None)
    if not callable(function):
        raise Unusable(f"{place} has no function {name!r}")
    return function  # type: ignore[no-any-return]


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _parallelism(given: str | None) -> Literal["tensor", "data"] | None:
    if given in (None, "tensor", "data"):
        return given  # type: ignore[return-value]
    raise typer.BadParameter(f"{given!r} is neither tensor nor data", param_hint="--ranks")


def print_report(console: Console, report: Report) -> None:
    for finding in report.findings:
        _print_finding(console, finding)
    num_troubles = len(report.troubles)
    num_unchecked = sum(finding.severity == "not_checked" for finding in report.findings)
    found = f"{counted(num_troubles, 'finding')}, {report.num_serious} of them serious"
    console.print(f"{found}; {num_unchecked} not checked", highlight=False)


def _print_finding(console: Console, finding: Finding) -> None:
    title = _TITLES.get(finding.severity, finding.severity)
    shown = Table.grid(padding=(0, 1))
    shown.add_column(width=11)
    shown.add_row(Text(title, _STYLES[finding.severity]), Text.assemble((finding.check, "bold"), f": {finding.what}"))
    for label, text in (("why", finding.why), ("fix", finding.fix)):
        if text:
            shown.add_row("", Text(f"{label}: {text}"))
    console.print(shown)


def finite(value: Any) -> Any:
    """The same with None for what JSON has no number for.

    >>> finite({"a": [1.0, float("nan")]})
    {'a': [1.0, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, (list, tuple)) else value
