"""``holter migrate``: the tables of a store that exists."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from rich.console import Console

from holter.pipeline.store.client import runner
from holter.pipeline.store.dsn import DSN_VARIABLE, EXAMPLE, parse_dsn
from holter.pipeline.store.errors import InvalidDsn, StoreError
from holter.pipeline.store.migrate import Migrator, read_migrations


def migrate(
    dsn: Annotated[str | None, typer.Option(help=f"The store, as {EXAMPLE}. [{DSN_VARIABLE}]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the statements that would be run.")] = False,
) -> None:
    """Bring a ClickHouse server's tables and views to this version.

    The embedded store does so by itself whenever it starts. A password is better given by the environment than by
    --dsn, which other users of the machine can see.

    Example: HOLTER_STORE_DSN=clickhouse://admin:secret@ch:8443/holter?secure=true holter migrate --dry-run
    """
    text = dsn or os.environ.get(DSN_VARIABLE)
    if not text:
        raise typer.BadParameter(f"name a store: --dsn or {DSN_VARIABLE}")
    try:
        _migrate(text, dry_run, Console())
    except InvalidDsn as error:
        raise typer.BadParameter(str(error)) from None
    except StoreError as error:
        Console(stderr=True).print(f"[red]error[/] {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None


def _migrate(text: str, dry_run: bool, console: Console) -> None:
    dsn = parse_dsn(text)
    migrator = Migrator(runner(dsn), dsn.database, read_migrations())
    if dry_run:
        statements = migrator.script() if migrator.plan() else []
        console.print(";\n\n".join([*statements, ""]), markup=False, highlight=False, soft_wrap=True)
        console.print(f"-- {len(statements)} statements for {dsn}; nothing was changed", highlight=False)
        return
    applied = migrator.apply()
    for migration in applied:
        console.print(f"applied {migration.number:04d} {migration.name}", highlight=False)
    console.print(f"{dsn} is as this version needs it.", highlight=False)
