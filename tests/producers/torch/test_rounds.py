"""A round that ends just before its process does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.ports import free_port

pytestmark = [pytest.mark.torch, pytest.mark.network, pytest.mark.timeout(240)]

RANK = """
import sys, time
from torch import distributed
from holter.producers.torch.ranks import Word
from holter.producers.torch.rounds import Rounds

rank, port = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
rounds = Rounds()
rounds.begin(Word()).heard(10)
time.sleep(0.3 * (1 - rank))
rounds.begin(Word())
if rank == 0:
    sys.setswitchinterval(10)  # whoever asks for the interpreter now gets it when it goes
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:
        pass
else:
    time.sleep(1)
"""


def test_it_does_not_abort_the_process() -> None:
    port = str(free_port())
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(rank), port], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    ended = [(rank.communicate()[1], rank.returncode) for rank in ranks]
    assert [code for _, code in ended] == [0, 0], ended
