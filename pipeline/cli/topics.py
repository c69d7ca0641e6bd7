"""``holter topics``: the topics of a Kafka that exists."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from holter.infra.topics import TopicPlan, create_topics, plan_topics
from holter.pipeline.bus.settings import KafkaSettings, kafka_settings_from_env
from holter.pipeline.cli.stack import reported_failures
from holter.schemas.topics import TopicNames

app = typer.Typer(no_args_is_help=True, help="Topics on a Kafka that exists.")

_STYLES = {"create": "green", "keep": "dim", "differs": "yellow"}


@app.callback()
def topics() -> None:
    """Topics on a Kafka that exists."""


@app.command()
def create(
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where Kafka is. [KAFKA_BOOTSTRAP_SERVERS]")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="The tenant's prefix. [HOLTER_TOPIC_PREFIX]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
) -> None:
    """Create the topics that are missing. One that exists is never changed: what differs is shown.

    Security settings are taken from KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_* and KAFKA_SSL_*.
    Ends with 0 when every topic is as wanted, with 1 when one differs or Kafka refuses.

    Example: holter topics create --bootstrap kafka:9092 --prefix team_a --dry-run
    """
    console = Console()
    with reported_failures(Console(stderr=True)):
        settings = _settings(bootstrap, prefix)
        plans = plan_topics(settings)
        console.print(_plan_table(plans))
        num_missing = sum(plan.action == "create" for plan in plans)
        if dry_run:
            console.print(f"\n{num_missing} topics would be created; nothing was changed.", highlight=False)
        else:
            console.print(f"\n{create_topics(settings, plans)} topics created.", highlight=False)
        if any(plan.action == "differs" for plan in plans):
            console.print("Topics that differ were left as they are; change them with your broker's own tools.")
            raise typer.Exit(1)


def _settings(bootstrap: str | None, prefix: str | None) -> KafkaSettings:
    settings = kafka_settings_from_env(os.environ, bootstrap, prefix)
    if settings is None:
        raise typer.BadParameter("name a Kafka: --bootstrap HOST:PORT or KAFKA_BOOTSTRAP_SERVERS")
    try:
        TopicNames(settings.prefix)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return settings


def _plan_table(plans: list[TopicPlan]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("topic", "", "partitions", "settings"):
        table.add_column(heading, overflow="fold")
    for plan in plans:
        settings = plan.differences or tuple(f"{key}={value}" for key, value in plan.config.items())
        style = _STYLES[plan.action]
        table.add_row(plan.name, f"[{style}]{plan.action}[/]", str(plan.num_partitions), "\n".join(settings))
    return table
