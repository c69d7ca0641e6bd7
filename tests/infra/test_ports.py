from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from holter.infra.ports import LOOPBACK, PORT_RANGE, accepts_connections, allot, is_free

pytestmark = pytest.mark.network


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind((LOOPBACK, 0))
        server.listen()
        yield int(server.getsockname()[1])


def test_a_known_port_is_kept_while_it_is_free() -> None:
    first = allot(["a", "b"], {}, random.Random())
    assert allot(["a", "b"], first, random.Random()) == first


def test_ports_are_distinct_and_in_the_range() -> None:
    ports = allot([str(number) for number in range(20)], {}, random.Random(1)).values()
    assert len(set(ports)) == 20
    assert all(port in PORT_RANGE for port in ports)


def test_a_port_that_another_program_took_is_replaced(taken: int) -> None:
    assert allot(["a"], {"a": taken}, random.Random())["a"] != taken


def test_the_port_of_a_component_that_is_left_alone_is_not_given_away() -> None:
    seed_port = random.Random(7).choice(PORT_RANGE)
    assert allot(["a"], {"other": seed_port}, random.Random(7))["a"] != seed_port


def test_a_listening_port_is_not_free(taken: int) -> None:
    assert not is_free(taken)
    assert accepts_connections(taken)
