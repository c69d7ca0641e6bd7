"""Ports for servers of tests."""

from __future__ import annotations

import random

from holter.infra.ports import allot


def free_port() -> int:
    """Of those that no outgoing connection is given: nobody takes it between this call and the server's start."""
    return allot(["server"], {}, random.SystemRandom())["server"]
