"""The example stays short, and has nothing wrong but what PyTorch's own layer leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.torch


def test_it_is_short_and_lacks_qk_norm_alone() -> None:
    from holter.producers.examples import preflight_job
    from holter.producers.torch.preflight import examine, rehearse

    report = examine(rehearse(preflight_job.job))
    assert {finding.check: finding.severity for finding in report.troubles} == {"QK-norm": "note"}
    assert len(Path(preflight_job.__file__).read_text().splitlines()) < 60
