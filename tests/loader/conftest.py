from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.embedded import EmbeddedStore


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    embedded = EmbeddedStore(tmp_path_factory.mktemp("store"))
    embedded.start()
    yield embedded
    embedded.close()
