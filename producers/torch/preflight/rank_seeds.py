"""Whether ranks that hold parts of one tensor drew the same random numbers for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holter.producers.torch.preflight.examined import Examined
from holter.producers.torch.preflight.finding import Finding, fine, not_checked
from holter.producers.torch.preflight.ranks import RankFacts

NAME, DROPOUT = "seeds of the ranks", "dropout of the ranks"


def check(examined: Examined) -> Iterator[Finding]:
    """SmolLM3 trained for 10¹² tokens with one seed on all tensor-parallel ranks: its loss looked healthy, and it
    lagged behind a smaller model."""
    ranks = examined.subject.ranks
    if len(ranks) < 2:
        yield not_checked(NAME, "one process and one rank: run it in the job, or with --ranks")
        return
    names = sorted(set.intersection(*(set(facts.matrices) for facts in ranks)))
    if names:
        yield _parts(ranks, names)
    elif len({facts.random_state for facts in ranks}) == len(ranks):
        yield fine(NAME, f"the random states of {len(ranks)} ranks differ")
    elif any(facts.has_dropout for facts in ranks):
        yield Finding(DROPOUT, "warning", f"{len(ranks)} ranks have the same random state", *_SAME_DROPOUT)
    else:
        yield fine(NAME, f"{len(ranks)} ranks have the same random state, and nothing that needs another was found")


def _parts(ranks: Sequence[RankFacts], names: Sequence[str]) -> Finding:
    equal = [name for name in names if len({facts.matrices[name] for facts in ranks}) < len(ranks)]
    share = len(equal) / len(names)
    if not equal:
        return fine(NAME, f"all {len(names)} split matrices differ between {len(ranks)} ranks", 0.0)
    what = f"{len(equal)} of {len(names)} split matrices are equal on two ranks or more, such as {equal[0]}"
    why = (
        "parts that begin equal get equal gradients: the model is narrower than it looks, and only evaluations show it"
    )
    fix = "seed with seed + tensor-parallel rank before the model is made, and with one seed what is not split"
    return Finding(NAME, "serious", what, share, 0.0, why, fix)


_SAME_DROPOUT = (
    None,
    None,
    "ranks with different data drop the same units, so their gradients average less noise away",
    "seed with seed + rank after the weights were made",
)
