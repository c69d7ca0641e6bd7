"""The forest itself."""

from __future__ import annotations

import pytest

from holter.pipeline.diagnose.suspects import rank_nodes

pytestmark = pytest.mark.frameworks


def test_the_node_that_says_something_else_and_the_silent_one_come_first() -> None:
    counts = {f"node-{number:02d}": {1: 1, 2: 3} for number in range(20)}
    counts["node-07"] = {1: 1, 2: 3, 3: 4, 4: 1}
    counts["node-11"] = {}
    ranked = rank_nodes(counts)
    assert {each.node for each in ranked[:2]} == {"node-07", "node-11"}
    assert rank_nodes(dict(reversed(counts.items()))) == ranked


def test_nothing_is_ranked_that_is_all_the_same_or_too_few() -> None:
    assert rank_nodes({"a": {1: 1}, "b": {2: 1}, "c": {3: 1}}) == []
    assert rank_nodes({name: {1: 2} for name in "abcdef"}) == []
