"""The corpora that need no files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec

from tests.scoreboard.corpus import noisy, published, simulated
from tests.scoreboard.kinds import all_kinds
from tests.scoreboard.truth import LabelledRun

OWN = "own"
UNLIKE = "unlike kinds"

CORPORA: dict[str, Callable[[bool], list[LabelledRun]]] = {
    OWN: lambda with_torch: [
        *simulated.runs(),
        *simulated.runs(every=10),
        *published.runs(),
        *noisy.runs(),
        *(_torch_runs() if with_torch else ()),
    ],
    UNLIKE: lambda with_torch: list(all_kinds.runs()),
}


def _torch_runs() -> Iterable[LabelledRun]:
    """None where torch is not installed."""
    if find_spec("torch") is None:
        return ()
    from tests.scoreboard.corpus import torch_runs

    return torch_runs.runs()
