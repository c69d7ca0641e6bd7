"""Makes a job as two of its ranks would, one after the other in this process."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from holter.producers.torch.preflight.ranks import Parallelism, facts_of
from holter.producers.torch.preflight.subject import Subject, subject_of

NUM_RANKS = 2
_FRESH_SEED = 67280421310721
"""Of the random state that PyTorch gives a new process (``c10::default_rng_seed_val``)."""


def rehearse(build: Callable[..., Any], parallelism: Parallelism | None = None) -> Subject:
    """What ``build`` returns; with ``parallelism`` as rank 0, and what differs on rank 1.

    Each time ``RANK``, ``LOCAL_RANK`` and ``WORLD_SIZE`` are set and the random state is a new process's; a ``build``
    that takes ``rank`` is given it.

    Raises:
        ValueError: what it returns cannot be used.
    """
    if parallelism is None:
        return subject_of(build())
    subjects, facts = [], []
    for rank in range(NUM_RANKS):
        with _as_rank(rank):
            takes_rank = "rank" in inspect.signature(build).parameters
            subjects.append(subject_of(build(rank=rank) if takes_rank else build()))
            facts.append(facts_of(subjects[-1].model, parallelism == "tensor"))
    return replace(subjects[0], ranks=tuple(facts))


@contextmanager
def _as_rank(rank: int) -> Iterator[None]:
    wanted = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(NUM_RANKS)}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_FRESH_SEED)
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
