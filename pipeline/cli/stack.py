"""``holter up``, ``down`` and ``status``: the local stack."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from holter.infra.components.component import Status
from holter.infra.errors import ComponentFailed, StackError
from holter.infra.settings import settings_from_env
from holter.infra.stack import COMPONENTS, Stack, UpFailed, UpReport
from holter.infra.state import StackState
from holter.pipeline.cli.policy_file import POLICY_HELP, POLICY_METAVAR, known_policy
from holter.pipeline.core.decide.written_policy import DEFAULT_PRESET

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of the stack's data, logs and state. [HOLTER_HOME, default: .holter]"),
]


def known_components(names: list[str] | None) -> list[str] | None:
    """Refuses a component that does not exist."""
    known = [component.name for component in COMPONENTS]
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(f"there is no part {name!r}; there are {', '.join(known)}")
    return names


def up(
    home: HomeOption = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="NAME", callback=known_components, help="Leave a part out; may be repeated."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar=POLICY_METAVAR,
            envvar="HOLTER_POLICY",
            callback=known_policy,
            help=f"{POLICY_HELP}; default: as last time, at first {DEFAULT_PRESET}.",
        ),
    ] = None,
) -> None:
    """Bring Kafka, Flink, the store, the loader and `watch` up, on loopback only.

    What is up already is left alone, what died is started again, and `watch` goes on from its last checkpoint.

    Example: holter up --home /tmp/holter
    """
    console = Console(stderr=True)
    with reported_failures(console):
        left_out = frozenset(without or ())
        settings = settings_from_env(os.environ, home, left_out, policy)
        report = Stack(settings, os.environ, console).up()
        console.print(_summary(report, settings.layout.logs))


def down(home: HomeOption = None) -> None:
    """Stop every process of the stack. Its data stays: the next `up` goes on from there.

    Example: holter down
    """
    console = Console(stderr=True)
    with reported_failures(console):
        num_stopped = Stack(settings_from_env(os.environ, home), os.environ, console).down()
        console.print(f"Holter is down: {num_stopped} processes stopped." if num_stopped else "Holter was not up.")


def status(
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Show how each part is, and how to reach it. Ends with 0 when all is up, else with 1.

    Example: holter status --json
    """
    console = Console()
    with reported_failures(console):
        stack = _remembered_stack(home, console)
        parts, state = stack.status(), stack.state()
        if as_json:
            print(json.dumps(status_document(parts, state)))
        elif not state.ports:
            console.print("No stack was brought up here: run `holter up`.")
        else:
            _print_status(console, parts, state)
        if any(part.state != "up" for part in parts):
            raise typer.Exit(1)


@contextmanager
def reported_failures(console: Console) -> Iterator[None]:
    """Ends the command with 1 after what went wrong, and where to look, was said."""
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would only cut the message off
        console.print("Interrupted. What was started goes on: `holter up` completes it, `holter down` stops it.")
        os._exit(130)  # the threads that wait for components would hold a normal end back
    except UpFailed as failed:
        for error in failed.errors.values():
            _print_failure(console, error)
        raise typer.Exit(1) from None
    except (StackError, OSError) as error:
        _print_failure(console, error)
        raise typer.Exit(1) from None


def status_document(parts: list[Status], state: StackState) -> dict[str, Any]:
    """What ``--json`` prints; ``store_dsn`` holds the password."""
    return {
        "up": all(part.state == "up" for part in parts),
        "components": [asdict(part) for part in parts],
        "kafka_bootstrap": state.kafka_bootstrap,
        "flink_rest": state.flink_rest,
        "store_dsn": state.store_dsn,
        "prefix": state.prefix,
        "keys_file": state.keys_file,
    }


def notebook_example(dsn: str) -> str:
    """Three lines that ask the store for its runs."""
    return (
        "import clickhouse_connect\n"
        f'store = clickhouse_connect.get_client(dsn="{dsn}")\n'
        'store.query("SELECT * FROM runs").result_rows'
    )


def _remembered_stack(home: Path | None, console: Console) -> Stack:
    settings = settings_from_env(os.environ, home)
    without = frozenset(Stack(settings, os.environ, console).state().without)
    return Stack(settings_from_env(os.environ, home, without), os.environ, console)


def _summary(report: UpReport, logs: Path) -> Table:
    state = report.state
    table = Table.grid(padding=(0, 2))
    table.add_row("", "Holter is up." if report.changed_anything else "Holter was up already: nothing changed.")
    for name, address in _addresses(state):
        table.add_row(name, address)
    table.add_row("Logs", str(logs))
    table.add_row("", "`holter status` shows the parts and how to ask the store, `holter down` stops all.")
    return table


def _addresses(state: StackState) -> list[tuple[str, str]]:
    known = {"Flink": state.flink_rest and f"http://{state.flink_rest}", "Kafka": state.kafka_bootstrap}
    return [(name, address) for name, address in known.items() if address]


def _print_status(console: Console, parts: list[Status], state: StackState) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("part", "state", "pid", "port", "up for", "memory", ""):
        table.add_column(heading, justify="right" if heading in ("pid", "port", "up for", "memory") else "left")
    for part in parts:
        table.add_row(*_status_row(part))
    console.print(table)
    console.print()
    for name, address in _addresses(state):
        console.print(f"{name}: {address}", highlight=False)
    if state.store_dsn:
        console.print("\nAsk the store from a notebook:\n", highlight=False)
        console.print(notebook_example(state.store_dsn), markup=False, highlight=False, soft_wrap=True)


def _status_row(part: Status) -> list[str]:
    colour = {"up": "green", "starting": "yellow", "down": "red"}[part.state]
    return [
        part.name,
        f"[{colour}]{part.state}[/]",
        str(part.pid or ""),
        str(part.port or ""),
        _duration(part.uptime_seconds),
        f"{part.memory_bytes / 2**20:.0f} MB" if part.memory_bytes else "",
        part.detail,
    ]


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _print_failure(console: Console, error: Exception) -> None:
    console.print(f"[red]error[/] {error}", highlight=False, soft_wrap=True)
    if isinstance(error, ComponentFailed):
        for line in error.last_lines:
            console.print(f"    {line}", style="dim", markup=False, highlight=False, soft_wrap=True)
