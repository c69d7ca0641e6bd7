"""In which order a microbatch runs through the stages, and of which stages a lost one is made."""

from __future__ import annotations

MIN_STAGES_TO_SWAP = 4


def execution_order(microbatch: int, num_stages: int, swaps: bool) -> tuple[int, ...]:
    """The stages that a microbatch passes, first to last.

    With ``swaps`` (CheckFree+) every other microbatch runs the first two and the last two stages the other way round,
    so that each learns to do its neighbour's work and can be copied from it. It costs convergence where nothing fails.

    Raises:
        ValueError: there are too few stages to swap.

    >>> execution_order(0, 5, swaps=True), execution_order(1, 5, swaps=True)
    ((0, 1, 2, 3, 4), (1, 0, 2, 4, 3))
    """
    if swaps and num_stages < MIN_STAGES_TO_SWAP:
        raise ValueError(f"swapping the ends needs {MIN_STAGES_TO_SWAP} stages, there are {num_stages}")
    straight = tuple(range(num_stages))
    if not swaps or microbatch % 2 == 0:
        return straight
    return (1, 0, *straight[2:-2], num_stages - 1, num_stages - 2)


def sources(lost: int, num_stages: int, swaps: bool) -> tuple[int, ...]:
    """The stages that a lost one is made of: its two neighbours; with ``swaps``, at the ends the one that there is.

    Raises:
        ValueError: it cannot be rebuilt.

    >>> sources(2, 5, swaps=False), sources(0, 5, swaps=True)
    ((1, 3), (1,))
    """
    if not 0 <= lost < num_stages:
        raise ValueError(f"there is no stage {lost}, stages are 0 to {num_stages - 1}")
    if 0 < lost < num_stages - 1:
        return lost - 1, lost + 1
    if not swaps or num_stages < MIN_STAGES_TO_SWAP:
        raise ValueError(
            f"stage {lost} has one neighbour only: CheckFree rebuilds it where end stages swap (CheckFree+)"
        )
    return (1,) if lost == 0 else (num_stages - 2,)
