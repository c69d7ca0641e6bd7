from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.recorders import connect, record
from tests.local.test_recorder import NIGHT, clock, published


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole run that was recorded without a break; to be read only."""
    path = tmp_path_factory.mktemp("recorded")
    record([connect(path), *published(NIGHT)], clock())
    return path
