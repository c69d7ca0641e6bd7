from __future__ import annotations

from pathlib import Path

import pytest

from holter.infra.errors import StackError
from holter.infra.lock import exclusive


def test_a_second_holder_waits_and_then_gives_up(tmp_path: Path) -> None:
    waited: list[str] = []
    with (
        exclusive(tmp_path / "lock", 0, lambda: None),
        pytest.raises(StackError, match="another holter command"),
        exclusive(tmp_path / "lock", 0, lambda: waited.append("told")),
    ):
        pytest.fail("both hold the lock")
    assert waited == ["told"]


def test_it_is_free_again_after_the_block(tmp_path: Path) -> None:
    for _ in range(2):
        with exclusive(tmp_path / "new" / "lock", 0, lambda: pytest.fail("nobody holds it")):
            pass
