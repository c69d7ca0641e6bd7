"""Seeds of the ranks, told in a running job by each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from holter.producers.torch import preflight
from tests.producers.torch.several_ranks import run_ranks

pytestmark = [pytest.mark.torch, pytest.mark.network, pytest.mark.timeout(240)]


def seeds_of_parts(rank: int, num_ranks: int, folder: Path, per_rank: bool) -> tuple[str, float | None]:
    """Two column-parallel matrices, marked as Megatron-LM marks them, and one that every rank has whole."""
    torch.manual_seed(0)
    whole = torch.nn.Linear(8, 8)
    torch.manual_seed(5 + rank * per_rank)
    model = torch.nn.Sequential(whole, torch.nn.Linear(8, 4), torch.nn.Linear(4, 8))
    for part in (model[1], model[2]):
        part.weight.tensor_model_parallel = True  # type: ignore[assignment]
    report = preflight(model)
    (finding,) = (each for each in report.findings if each.check == "seeds of the ranks")
    return finding.severity, finding.value


@pytest.mark.parametrize(("per_rank", "expected"), [(False, ("serious", 1.0)), (True, ("fine", 0.0))])
def test_every_rank_tells_whether_its_parts_were_drawn_alike(
    tmp_path: Path, per_rank: bool, expected: tuple[str, float]
) -> None:
    assert run_ranks(seeds_of_parts, 2, tmp_path, per_rank) == [expected, expected]
