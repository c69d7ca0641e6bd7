"""What comparable jobs said is never a symptom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holter.pipeline.diagnose.templates import Templates, Vocabulary

MESSAGES = st.lists(
    st.lists(st.sampled_from(["read", "shard", "a", "b", "c", "<*>"]), min_size=1, max_size=5).map(" ".join)
)


def test_lines_that_differ_in_a_word_share_a_template() -> None:
    templates = Templates()
    identities = {templates.learn(f"opened shard {name} for reading") for name in ("books", "web", "code")}
    assert len(identities) == 1
    assert templates.text(identities.pop()) == "opened shard <*> for reading"
    assert templates.covering("opened shard wiki for reading") is not None
    assert templates.covering("closed shard wiki for reading") is None


def test_a_line_that_is_only_similar_to_a_usual_one_is_a_symptom() -> None:
    vocabulary = Vocabulary()
    vocabulary.learn_known("checkpoint write to <*> finished after <*> s")
    assert vocabulary.identity("checkpoint write to <*> finished after <*> s") < 0
    assert vocabulary.identity("checkpoint write to <*> failed after <*> s") > 0


@given(MESSAGES, MESSAGES)
def test_what_was_said_by_a_job_that_succeeded_is_known(usual: list[str], failed: list[str]) -> None:
    vocabulary = Vocabulary()
    for message in usual:
        vocabulary.learn_known(message)
    for message in failed:
        vocabulary.identity(message)
    vocabulary._remembered.clear()
    assert all(vocabulary.identity(message) < 0 for message in usual)
