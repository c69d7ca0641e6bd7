"""The example stays short and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.torch


def test_it_runs_without_a_bus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from holter.producers.examples import plain_loop

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLTER_MODE", "disabled")
    monkeypatch.setattr(plain_loop, "MAX_STEPS", 60)
    plain_loop.main()
    assert capsys.readouterr().out.startswith("60 steps, loss ")
    assert len(list((tmp_path / "checkpoints").glob("*/*.pt"))) == 1


def test_it_is_under_sixty_lines() -> None:
    from holter.producers.examples import plain_loop

    assert len(Path(plain_loop.__file__).read_text().splitlines()) < 60
