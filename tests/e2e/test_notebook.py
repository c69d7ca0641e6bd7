"""What `holter status` tells people to paste works as it stands."""

from __future__ import annotations

from typing import Any

import pytest

from holter.pipeline.cli.stack import notebook_example


@pytest.mark.services
def test_the_notebook_example_runs(stack: Any) -> None:
    lines = notebook_example(stack.state().store_dsn).strip().splitlines()
    names: dict[str, Any] = {}
    exec("\n".join([*lines[:-1], f"rows = {lines[-1]}"]), names)
    assert isinstance(list(names["rows"]), list)
