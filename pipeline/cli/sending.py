"""How a person's order leaves the command line: checked, signed, sent, and its answer told."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from rich.console import Console

from holter.pipeline.bus import Bus, BusError
from holter.pipeline.bus.kafka import KafkaBus
from holter.pipeline.cli.order_desk import NotSent, OrderDesk
from holter.producers.connection import Connection, connection_from_env
from holter.schemas import InvalidRecord, Key, KeyFileError, codec, encode
from holter.schemas.commands import Command, HoldState
from holter.schemas.signed import KEYS_FILE_VARIABLE


def order(command: Command | HoldState, wait_seconds: float) -> None:
    """Checks, signs and sends it; says what became of it."""
    _check(command)
    with open_desk() as desk:
        send(desk, command, wait_seconds)


def send(desk: OrderDesk, command: Command | HoldState, wait_seconds: float) -> None:
    """Says what became of it; ends with 1 where that is not what was wanted."""
    answer = desk.send(command, wait_seconds)
    console = Console(stderr=True)
    who = f"{command.project}/{command.run}"
    if answer is None:
        console.print(f"{who}: sent; `watch` did not answer within {wait_seconds:g} s. Is it up?", highlight=False)
        raise typer.Exit(1)
    colour = "green" if answer.answer == "done" else "yellow"
    console.print(f"{who}: [{colour}]{answer.answer}[/], ", end="", highlight=False)
    console.print(answer.reason, markup=False, highlight=False, soft_wrap=True)
    if answer.answer != "done":
        raise typer.Exit(1)


@contextmanager
def open_desk() -> Iterator[OrderDesk]:
    """Ends the command with 2 where there is no Kafka or key to be had, with 1 where Kafka fails."""
    connection = _connection()
    try:
        yield OrderDesk(_bus(connection), _key(connection), now_ms)
    except (BusError, NotSent) as error:
        fail(str(error))


def _bus(connection: Connection) -> Bus:
    return KafkaBus(connection.kafka)


def _connection() -> Connection:
    connection = connection_from_env(os.environ)
    if connection is None:
        raise typer.BadParameter("name a Kafka with KAFKA_BOOTSTRAP_SERVERS, or run `holter up` in this folder")
    return connection


def _key(connection: Connection) -> Key:
    if connection.keyring is None:
        raise typer.BadParameter(f"orders are signed, and {connection.keys_problem}: set {KEYS_FILE_VARIABLE}")
    try:
        return connection.keyring.signer("person")
    except KeyFileError as error:
        raise typer.BadParameter(str(error)) from None


def _check(command: Command | HoldState) -> None:
    """Refuses here what every reader would."""
    try:
        (codec.commands if isinstance(command, Command) else codec.holds).decode(encode(command))
    except InvalidRecord as error:
        raise typer.BadParameter(error.detail) from None


def person_name(given: str | None) -> str:
    return (given or os.environ.get("HOLTER_PERSON") or getpass.getuser())[:200]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fail(text: str) -> NoReturn:
    Console(stderr=True).print(f"[red]error[/] {text}", highlight=False, soft_wrap=True)
    raise typer.Exit(1)
